// Package barrier has the recipes by which processes wait for each other:
//
//   - Barrier: all wait while a node exists.
//   - Double: n processes begin together, and end together.
//   - Rendezvous: n processes meet, and exchange a value each.
//   - Event: processes wait until an event is set. A set releases all, or one.
//
// # Layout on the tree
//
//	/maintenance    Barrier: persistent, without data; in place while it exists
//
//	/job/42         Double: a container
//	/job/42/<UUID>  ephemeral: a participant; its data is Options.Name
//	/job/42/ready   persistent, without data: the barrier is open
//
//	/pairs                                  Rendezvous: a container
//	/pairs/_c_<GUID>-party-of-2-<sequence>  ephemeral: a party; its data is its value,
//	                                        and from version 1 on JSON: the meeting
//
//	/event                              Event: persistent; JSON: kind and state
//	/event/_c_<GUID>-waiter-<sequence>  ephemeral: waits for an auto-reset event
//
// Nodes above these are created as containers. Barrier is Curator's DistributedBarrier and
// kazoo's Barrier, Double is Curator's DistributedDoubleBarrier and kazoo's
// DoubleBarrier; programs that use these can share a path with this package. They
// weaken what a Double promises: both take a "ready" that a crash left behind for an
// open barrier, kazoo deletes "ready" when the first participant leaves, and Curator
// while one is still inside. No other library has the other two recipes.
//
// # What it guarantees
//
//   - Barrier: when Wait returns nil, there was a moment during that call at which the
//     barrier was not in place. Wait and Present see each Set that returned before
//     they were called, by any process.
//   - Double: when Enter returns, there was a moment during that call at which n
//     participants were there. The participant that counts n opens the barrier, in one
//     change that is made only if all n are still there; further ones then pass.
//     Release returns when all have left, or failed, that were inside when it was called.
//     The barrier can be used again at once. A "ready" that a crash left behind is
//     recognised by its age and opens nothing.
//   - Rendezvous: a meeting is one change: all n parties learn of it or none, and all
//     learn the same. Each Meet is in one meeting at most. The n parties that came
//     first meet; dead ones are not waited for.
//   - Event, ManualReset: Set and Pulse release all whose Wait had read the event before,
//     also if Reset follows at once. AutoReset: Set releases one waiter, in the order in
//     which they came; the change that takes the signal takes the waiter out of the
//     line. If nobody waits, one Set is remembered.
//   - There is no polling and no herd: each waiter watches one node. When a Double opens
//     or a round of it ends, and when a ManualReset event is set, all are woken once.
//
// # When something breaks
//
//   - The connection: calls continue when it is back, and find out what was done. If
//     others have changed an Event more than 16 times meanwhile, the error IsAmbiguous.
//   - The session of a waiter: the call fails with recipes.ErrLost. The error of Meet,
//     and of Wait for an AutoReset event while it takes the signal, IsAmbiguous as well:
//     the party may have met, and the signal may be taken.
//   - The session of a participant inside a Double: Inside.Context ends, and the others
//     do not wait for it.
//   - The process that set a Barrier or an Event: both stay as they are.
//   - The context ends: the call leaves nothing behind. A Meet that had met by then
//     returns the meeting; if the connection is down, it takes up to two seconds to find
//     out, and then the error IsAmbiguous.
//
// # What the caller must do
//
// Use one n, and one kind of event, at one path. Leave a Barrier's node without children.
// Release each Inside, and stop when its context ends. The values of a meeting are
// written n times in one request, so n*n*4/3 times the size of a value must be less than
// client.DefaultMaxRequest. A client needs the permissions to read, and for all but
// Barrier.Wait also to write, create and delete.
//
// # Goroutines
//
// Between Enter and Release, one watches the participant's node.
package barrier
