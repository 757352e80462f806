// Package doublebarrier has processes begin and end a piece of work together: who
// enters waits until n are there, and who leaves waits until all are done.
//
//	b, err := doublebarrier.New(c, "/job/42", 5, doublebarrier.Options{})
//	in, err := b.Enter(ctx) // waits for the other four
//	if err != nil {
//		return err
//	}
//	work(in.Context())
//	err = in.Leave(ctx) // waits until the other four have left
//
// # Layout on the tree
//
//	/job/42         made as a container if it is missing
//	/job/42/<UUID>  ephemeral: a participant; its data is Options.Name
//	/job/42/ready   persistent, without data: the barrier is open
//
// It is that of Curator's DistributedDoubleBarrier and of kazoo's DoubleBarrier, which
// take part in the same barrier. They weaken it: both take a "ready" that a crash has
// left behind for an open barrier. kazoo deletes "ready" when the first one leaves, and
// Curator's Leave returns while one other participant is still inside and deletes it
// then; a participant of ours whose connection is down for just as long as "ready" is
// there then misses it. And from Curator before its fix of GH-1290 an Enter with a
// time limit may return before n are there. Apache ships no such recipe, only its
// description, which this package follows (seeds.md A9-A11).
//
// # What it guarantees
//
//   - When Enter returns there was a moment in that call at which n participants were
//     there together, oneself among them. The one who finds that they are n opens the
//     barrier, in one change that is made only if all of them are there still.
//   - Leave returns when everybody has left or failed who was inside when it was
//     called.
//   - More than n may take part: while n are there others pass as they come. One who
//     waits in Leave for others to be done is there, too.
//   - A barrier can be used again at once, and by the same participants. What is left
//     of a round in which all have crashed, "ready", is known by its age: it lets
//     nobody in, and is used again when the next round opens.
//   - One watch for who enters, and one wake-up for each when the barrier opens.
//     Leaving, each deletion wakes one participant, and the last one all.
//
// # When something breaks
//
//   - The connection, before or after any request: Enter and Leave go on when it is
//     back, and what was done meanwhile is found out. Nobody is counted twice.
//   - The session ends: one's node goes, so that the others don't wait for one any
//     more. Enter and Leave fail with recipes.ErrLost, and Inside.Context ends. If that
//     was the last one of a round "ready" may stay: see above.
//   - The process is paused: the others take it for failed when its session has ended,
//     and may have left when it goes on. Inside.Context tells of it.
//   - The servers' leader: as with the connection.
//   - One gives up as ctx ends: its node is deleted, at once or in the background.
//     Before the barrier is open it counts no more from then on.
//
// # What the caller must do
//
// Use one n for one path. Call Leave once for each Enter that did not fail. Stop when
// Inside.Context ends. Participants must be allowed to read the barrier's node and its
// children, and to create and delete children; ErrNoAuth comes through otherwise.
//
// # Goroutines
//
// Between Enter and Leave there is one that watches over the participant's node.
package doublebarrier
