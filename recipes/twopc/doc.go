// Package twopc is two-phase commit: several sites do something all, or none of them does.
// Each site votes, and the decision that follows from the votes is recorded once.
//
//	t, err := twopc.New(c, "/tx/42", twopc.Options{})
//	err = t.Begin(ctx, twopc.Plan{Sites: []string{"a", "b"}, Data: transfer}) // the coordinator
//
//	site, err := t.Join(ctx, "a")     // each site
//	err = prepare(site.Data())        // so that it can be done, and be undone
//	err = site.Vote(ctx, twopc.Commit)
//	d, err := t.Await(ctx)            // d.Outcome says which
//
//	d, err := t.Decide(ctx)           // the coordinator, or each site instead of Await
//	err = t.End(ctx)                  // when all have done what d says
//
// # Layout on the tree
//
//	/tx/42           persistent; its data is Plan.Data
//	/tx/42/decision  persistent; JSON: the sites, and the decision once there is one
//	/tx/42/site-a    a site's vote: no data, "commit" or "abort"; persistent, or an
//	                 ephemeral node of the site's session
//
// Nodes above are created as containers. The recipe is the one described in ZooKeeper's
// "Recipes and Solutions"; Curator, kazoo and Apache ship none.
//
// # Two modes, and two kinds of sites
//
// With a coordinator, which calls Decide, each site exchanges a fixed number of messages.
// Without one all sites call Decide: the number of messages is in proportion to the square
// of the number of sites, but any site that survives decides. Both modes use the same nodes
// and can be used together.
//
// Begin creates the nodes of persistent sites. Such a site may fail and come back, in
// another session or another process, and the others cannot know whether it will. An
// ephemeral site creates its own node. If it fails before the decision, Decide finds that
// out, even if it is called later, and aborts the transaction.
//
// # What it guarantees
//
//   - All programs learn the same decision. It is recorded by a change of one version of
//     one node: of several programs that try to decide, whatever votes they have seen, one
//     is first, and the others adopt its decision. Votes alone decide nothing.
//   - Commit is recorded only if each site has voted to commit. The same multi checks that
//     the votes still exist, and so that each ephemeral site is alive. If a site's node
//     disappears later, the decision stays.
//   - A vote is final. A vote to abort decides at once, in the same multi.
//   - Nothing polls. A site that awaits the decision is woken once.
//
// # When something fails
//
//   - The connection breaks, or the leader is lost: all calls continue when it is back, and
//     find out what was done. There is one exception: if a transaction was decided and
//     ended before Begin is connected again, Begin finds no trace of it and begins it again.
//   - A site fails before its vote: if it is ephemeral, the next Decide aborts the
//     transaction. Otherwise the others wait for it. Any program may call Abort.
//   - A site fails after its vote to commit: when it is back, it must learn the decision,
//     with Join or Await, and carry it out. Until then it is blocked and must keep its
//     locks, as always with two-phase commit.
//   - The coordinator fails before there is a decision: sites in Await are blocked. Any of
//     them, or another coordinator, may call Decide, which continues from the votes, or
//     Abort. When to do so is up to the caller, for example with a context's deadline.
//   - The session ends: calls that depend on an ephemeral node fail with recipes.ErrLost,
//     others with client.ErrSessionExpired. They can be repeated in another session.
//   - The process is stopped: nothing depends on its speed.
//
// # What the caller must do
//
// Act only on a Decision. Call End only when all sites have acted: a site that asks after
// that gets client.ErrNoNode and cannot learn the decision. Use each path once.
//
// # Goroutines
//
// There are none. All types may be used from any goroutine.
package twopc
