// Package election decides which one of many does what only one may do, until it
// resigns or fails, and who follows.
//
//	l, err := election.NewLatch(c, "/app/leader", election.Options{ID: hostname})
//	if err != nil {
//		return err
//	}
//	defer l.Close(context.Background())
//	l.Start()
//	leadership, err := l.Await(ctx)
//	if err != nil {
//		return err
//	}
//	return lead(leadership.Context()) // ends when leadership is lost
//
// A Latch is a candidate until it is closed. Election.Run and RunAgain are for leading that
// is one function. Election shows who stands and who leads, also to those who don't take
// part. All of these form a line: the next leader is the one that has waited for longest,
// and it alone is woken. Master is the simpler election of the ZooKeeper book, without a
// line.
//
// # Layout on the tree
//
// Below the election's path, which is made as a container when it is first needed, each
// candidate has a sequential ephemeral node with Options.ID as its data. The lowest
// number leads; each other one watches the one before it, and nothing else.
//
//	/app/leader
//	/app/leader/_c_5f1d3c7a-…-latch-0000000004                      CuratorLatch (default)
//	/app/leader/_c_5f1d3c7a-…-lock-0000000004                       CuratorSelector
//	/app/leader/0d6a5c0be0b84b8f9d0e7c1b2a394857__lock__0000000004  Kazoo
//	/app/leader/5f1d3c7a-…-n_0000000004                             RecipePage
//	/app/leader/n_0000000004                                        ElectionSupport
//
// A leader that has acknowledged has an ephemeral node of the same name beside them,
// below /app/leader-acknowledged if not said otherwise: 0x and 16 digits that are its
// token, a newline, and what it wants to say. It counts as long as the leader's own
// node, with that token, exists. So one that has died, or whose node was made anew, is
// never taken for its successor.
//
// A master is one ephemeral node at the path itself. Its data are MasterOptions.ID, a
// space and a GUID, which is new for each attempt, so that one's own node is told from any
// other also when the reply to its create was lost.
//
// # Programs in other languages
//
// Candidates of one election must have one layout. With CuratorLatch they stand together
// with Curator's LeaderLatch, with CuratorSelector with its LeaderSelector, with Kazoo with
// kazoo's Election, with ElectionSupport with Apache's LeaderElectionSupport, which wants
// the path to exist. RecipePage is for programs that are written after ZooKeeper's page of
// recipes. A child of another layout makes candidates fail with recipes.ErrLayout: it
// might be the place of somebody whom this package can't understand. None of these
// libraries knows of acknowledgements.
//
// LeaderElectionSupport's names tell nothing of who has made them, so that a node whose
// create was lost is found by its session and its data: Options.ID must differ between the
// candidates of one client. And they begin anew when the path has been deleted, so
// Leadership.Guard is no protection beyond that.
//
// Programs after the book stand together with a Master: they compare the data with an ID
// of their own, and find somebody else's.
//
// # What is guaranteed
//
// While the node of the leader exists nobody else leads. Leadership.Context ends, and
// Leadership.Err says recipes.ErrLost, when the node may be gone:
//
//   - Connection lost before or after any request: the request is repeated where its
//     outcome can be found out, and none makes a second node. While the connection is down
//     leadership lasts until client.Status.Deadline, less Options.Reserve: until
//     then the servers give it to nobody.
//   - The session has expired, or the servers may have ended it: leadership is lost. A
//     Latch and RunAgain join again in the new session if there is one
//     (client.Options.RenewSession), and end if not.
//   - The node was deleted by somebody: lost. A Latch and RunAgain join again, as the last
//     in the line.
//   - One that is not the leader fails: the one behind it sees that it still is not its
//     turn, and watches the one before.
//   - The servers lose their leader: as with a lost connection. Nobody can lead anew
//     meanwhile, as that takes a leader.
//   - The process is stopped, and goes on after others have begun to lead: it does not
//     know for a moment. No election can help that; see below.
//
// Tokens grow: each leader's is larger than those of all before it. Whoever gives up
// leaves no node: if no server can be reached it is deleted once one can, or goes with
// the session.
//
// That somebody has the lowest number does not mean that it knows, or that it has done
// what it must do first. Who depends on that waits for the acknowledgement.
//
// A hand-over takes three round trips, of the delete, of the list that shows the next one
// that it is first, and, while that one leads already, of the read that watches its own
// node. It wakes one candidate, however many there are; with a Master it wakes all.
//
// # What the caller must do
//
// Stop when the context ends. Where a late write would do damage, fence: give the Token
// along with each write to a store that refuses tokens lower than one it has seen, or if
// the store is ZooKeeper, write with Client.Multi and Leadership.Guard, which fails once
// leadership is lost. Close what was started.
//
// # Goroutines
//
// All may be used from any goroutine. A Latch has one goroutine of its own until Close, a
// Campaign one while it waits for an event. A Leadership and a Mastership have two, which
// watch over the node, until they are lost or resigned.
package election
