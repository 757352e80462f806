// Package status shows how workers fare: each reports a status, and others monitor
// them all.
//
//	board, err := status.New(c, "/workers", status.Options{}) // c has RenewSession
//	if err != nil {
//		return err
//	}
//	me, err := board.Register(ctx, "w1", "idle")
//	...
//	me.Post("working on task 7") // or Set, which waits until others can see it
//	...
//	for view, err := range board.Follow(ctx) { // view.Workers, view.Changed, view.Gone
//
// # Layout on the tree
//
// The path is a container; each worker has an ephemeral child of its ID, with the
// status as data, as text. That is how the workers of the ZooKeeper book keep it, and
// it is the layout of package group and of Curator's GroupMember.
//
// # Old statuses are not written over newer ones
//
// That is what goes wrong easily (seeds.md C44): "working" is sent and the connection
// breaks; meanwhile the worker sets "idle"; then the first set is repeated, as its
// outcome is unknown, and the worker counts as working for ever. Here one goroutine
// writes, which always takes the newest status, and after a broken connection looks
// what there is before it writes again, with the version it has seen. A status that a
// newer one has overtaken before it was written is left out.
//
// So what others see of a worker is a part of what it has set, in that order, and
// ends with the last.
//
// # What it guarantees
//
//   - Connection lost before or after a request: hidden, as above. Registering makes
//     one node: a client.ErrNodeExists of one's own earlier create is none (C42).
//   - Session ended: with client.Options.RenewSession the worker is back with its newest
//     status; others see it go and come. Without, it ends with recipes.ErrLost.
//   - Process paused for longer than the session's timeout: the same.
//   - Leader lost: as connection lost.
//   - Monitor cut off: its View is Stale, with AsOf as the time from which on nothing is
//     known; when it is back it has what there is.
//
// # What the caller must do
//
// Close the Reporter. Treat a worker that is seen as one that was alive a session
// timeout ago at most, and a View that is Stale as one of the past.
//
// # Order
//
// Of calls of Set and Post in one goroutine the later one wins; of calls in several,
// the one that came later. Callers who decide on a status by what they know need a
// lock of their own around deciding and Post, which is why that doesn't wait.
//
// # Goroutines
//
// A Reporter has one until Close, and Follow has some until the loop ends. All methods
// may be called from any goroutine.
package status
