// Package barrier has processes wait while a node exists: somebody sets the barrier,
// many wait, and all go on when it is removed.
//
//	b, err := barrier.New(c, "/maintenance", barrier.Options{})
//	err = b.Set(ctx)    // the operator
//	err = b.Wait(ctx)   // the workers, before each job
//	err = b.Remove(ctx) // the operator again: all workers go on
//
// # Layout on the tree
//
//	/maintenance   persistent, without data: the barrier is in place while it exists
//
// The nodes above are made as containers. It is the layout of Curator's
// DistributedBarrier and of kazoo's Barrier; all three can be used together. kazoo's
// wait returns at the first removal, ours and Curator's looks again.
//
// # What it guarantees
//
//   - When Wait returns nil there was a moment in that call at which the barrier was
//     not in place. Set that has returned before a Wait begins, in another process,
//     is seen by that: Wait and Present ask for what the leader knows (sync).
//   - Who waits is woken once when the barrier is removed, and looks again (seeds.md
//     A8). If it has been set again by then Wait goes on.
//   - Set and Remove may be repeated: they make it so that the barrier is in place, or
//     is not.
//
// # When something breaks
//
//   - The connection: all calls go on when it is back. Remove removes the barrier that
//     was there when it was called, never one that was set since. Set whose reply is
//     lost looks whether the barrier is in place, and sets it if not; so if somebody
//     has removed it in just that time it is set again.
//   - The session of who has set it ends, or the process dies: the barrier stays.
//     Somebody has to remove it.
//   - The session of who waits ends: Wait fails with recipes.ErrLost. It may be called
//     again, with a new client or with client.Options.RenewSession.
//   - The process is paused: what Wait has returned was true at the time.
//   - The servers' leader: as with the connection.
//
// # What the caller must do
//
// Keep the barrier's node without children: Remove is recipes.ErrLayout otherwise.
// Waiting takes the permission to read the node, removing it that to delete in its
// parent.
//
// # Goroutines
//
// None.
package barrier
