// Package twopc has several sites do something all or not at all: two-phase commit.
// Each votes, and what the votes come to is recorded once and for all.
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
//	/tx/42           persistent; its data is the transaction, if that is to be there
//	/tx/42/decision  persistent; JSON: the sites, and once there is one the decision
//	/tx/42/site-a    a site's vote: no data, "commit" or "abort"; persistent, or
//	                 ephemeral, of the site's session
//
// The nodes above are made as containers. Neither Curator nor kazoo has such a recipe,
// nor does Apache ship one; this is that of its description (seeds.md A33-A37).
//
// # Two modes, and two kinds of sites
//
// With a coordinator, who calls Decide, each site exchanges a fixed number of messages,
// n sites together about n times that (A36). Without one all sites call Decide: n times
// n, but whichever site is left decides (A33). Both can be used at once, since the
// nodes are the same.
//
// Sites whose nodes Begin makes may fail and come back, with another session or in
// another process; nobody knows whether they will (A37). Ephemeral sites make their own
// nodes: that one has failed before the decision shows, also to who looks later, and
// aborts the transaction.
//
// # What it guarantees
//
//   - All who learn a decision learn the same. It is recorded by one change of one
//     version of one node; of all that try to decide, whatever they have seen, one is
//     first, and the others go by it. Votes alone decide nothing.
//   - Commit is recorded only if each site has voted to commit, and in the same change
//     it is checked that the votes are there still: that of an ephemeral site, that it
//     lives. If its node goes after that the decision stays.
//   - A vote is final. A vote to abort decides at once, in the same change (A34).
//   - No polling. A site that awaits the decision is woken once.
//
// # When something breaks
//
//   - The connection: all calls go on when it is back, and find out what has been done.
//     Only if a transaction was decided and ended before the one who began it is back,
//     Begin finds nothing, and begins it once more.
//   - A site, before its vote: if it is ephemeral the transaction is aborted by whoever
//     calls Decide. If not, the others wait for it. Anybody may call Abort.
//   - A site, after its vote to commit: it has to find out the decision, with Join or
//     Await, and to do it. That is what two-phase commit is about: it is blocked until
//     then, and must keep its locks.
//   - The coordinator, before there is a decision: sites that wait in Await are
//     blocked. Any of them, or another coordinator, may call Decide, which goes on
//     where the first one was, or Abort. When to do so is up to a context with a
//     deadline, not to the recipe.
//   - The session: calls fail with recipes.ErrLost where they rest on an ephemeral node,
//     and else as with the connection, with client.ErrSessionExpired; they can be
//     repeated in another session.
//   - The process is paused: nothing depends on how fast it is.
//   - The servers' leader: as with the connection.
//
// # What the caller must do
//
// Act on nothing but a Decision. Call End only when all sites have acted: to who comes
// later client.ErrNoNode does not say what was decided. Use a path once.
//
// # Goroutines
//
// None.
package twopc
