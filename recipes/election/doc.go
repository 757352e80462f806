// Package election decides which one of many does what only one may do, until it
// releases or fails, and which one follows.
//
//	l, err := election.NewLatch(c, "/app/leader", election.Options{})
//	if err != nil {
//		return err
//	}
//	defer l.Close(context.Background())
//	l.Start()
//	leadership, err := l.Await(ctx)
//	if err != nil {
//		return err
//	}
//	return lead(leadership.Context()) // ends when leadership is lost, and when ctx ends
//
// A Latch is a candidate until it is closed. Election.Run and RunAgain are for leading that
// is one function. Election shows the candidates and the leader, also to programs that do
// not take part. All of these form a line: the next leader is the one that has waited for
// longest, and it alone is woken. Master is the simpler election of the ZooKeeper book,
// without a line, which wakes all candidates.
//
// Leadership is a hold.Held: package hold says when it ends, what Release returns, and when
// a fencing token is needed. A Latch, RunAgain and a Campaign stand for election again when
// it is lost, as the last in the line; if the session has ended, in the next one if there is
// one (client.Options.RenewSession).
//
// # Layout on the tree
//
// Below the election's path, which is created as a container when it is first needed, each
// candidate has a sequential ephemeral node. The lowest number leads; each other one watches
// the one before it, and nothing else. If that one fails while another one leads, its
// successor finds that it is not its turn, and watches the one before.
//
//	/app/leader
//	/app/leader/_c_5f1d3c7a-…-latch-0000000004                      CuratorLatch (default)
//	/app/leader/_c_5f1d3c7a-…-lock-0000000004                       CuratorSelector
//	/app/leader/0d6a5c0be0b84b8f9d0e7c1b2a394857__lock__0000000004  Kazoo
//	/app/leader/5f1d3c7a-…-n_0000000004                             RecipePage
//	/app/leader/n_0000000004                                        ElectionSupport
//
// A master is one ephemeral node at the path itself. Its data are Options.Data, a space and
// a GUID, which is new for each attempt: so a candidate recognises its own node even if the
// reply to its create was lost.
//
// # Acknowledgement
//
// A candidate with the lowest number does not necessarily know it yet, or has not prepared
// yet what it needs to lead. Programs that depend on that wait for its acknowledgement: see
// Leadership.Acknowledge and Election.WaitAcknowledged. That is an ephemeral node with the
// same name as the leader's, below /app/leader-acknowledged by default. It contains 0x and
// the 16 digits of the leader's token, a newline, and the leader's data. It counts as long
// as the leader's own node, with that token, exists, so that a leader that has died is never
// taken for its successor.
//
// # Programs in other languages
//
// Candidates of one election must have one layout. With CuratorLatch they stand together
// with Curator's LeaderLatch, with CuratorSelector with its LeaderSelector, with Kazoo with
// kazoo's Election, with ElectionSupport with Apache's LeaderElectionSupport, which requires
// that the path exists. RecipePage is for programs that follow ZooKeeper's page of recipes.
// A child of another layout makes candidates fail with recipes.ErrLayout: it might be a
// candidate that this package does not understand. None of these libraries knows of
// acknowledgements.
//
// The names of LeaderElectionSupport do not identify their creator, so a node whose create
// was not answered is found by its session and its data: Options.Data must differ between
// the candidates of one client. And they begin again when the path has been deleted, so
// that Guard is no protection beyond that.
//
// Programs that follow the book stand together with a Master: they compare the data with an
// id of their own, and find another one's.
//
// # Goroutines
//
// All types may be used from any goroutine. A Latch and a Campaign have one goroutine each
// until Close.
package election
