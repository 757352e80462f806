// Package queue hands work over: producers offer items, and each is taken by one
// consumer.
//
//	q, err := queue.New(c, "/app/tasks", queue.Options{})
//	if err != nil {
//		return err
//	}
//	defer q.Close(ctx)
//	err = q.Offer(ctx, []byte("resize 17.png"))
//	...
//	data, err := q.Take(ctx) // waits for an item
//
// There are six kinds:
//
//   - Queue: first in, first out.
//   - Priority: urgent items first, even if they come later.
//   - Delay: an item can be taken from a time on.
//   - Bounded: an offer to a full queue waits.
//   - TwoPhase: an offer can be repeated after the end of its session or process.
//   - Leased: an item stays in the queue until the work on it is acknowledged, and goes to
//     another consumer if the first one fails. The other kinds forget an item when it is
//     taken.
//
// # Layout on the tree
//
//	path/qn-0000000007                 item of a Queue: Apache, the default
//	path/entry-100-0000000007          of a Queue with Kazoo or a Priority queue; 100 is the priority
//	path/queue-07-0000000007           of a Priority queue with Book; 7 is the priority
//	path/queue-|18BCFE56800|0000000007 of a Delay queue: milliseconds since 1970 in hex, and
//	                                   the data in a frame: see naming.go
//	path/items/qn-000003-0000000007    of a Bounded queue, in slot 3
//	path/slots/000003                  the slot is in use
//	path/_c_ID-item-0000000007         of a TwoPhase queue; before the data is a flag, "1" if
//	                                   the item can be taken and "0" if not
//	path/entries/entry-100-0000000007  of a Leased queue; the version counts the claims
//	path/taken/entry-100-0000000007    ephemeral: a lease; data: the claim's ID
//	path/dead/entry-100-0000000002     an item that was handed out Options.MaxAttempts times
//	path/waiting/_c_GUID-waiting-#     ephemeral: a call that waits, of Bounded and Leased
//	path-receipts/GUID                 ephemeral: see below
//	path-consumer/_c_GUID-lock-#       ephemeral: a consumer with Options.Exclusive
//
// Apache's DistributedQueue and Curator's SimpleDistributedQueue can share a path with a
// Queue, kazoo's Queue with Kazoo or Priority, kazoo's LockingQueue with Leased, and
// Curator's DistributedDelayQueue with Delay if items are put one by one. They promise less
// of their own offers and takes. Curator's DistributedQueue, priority and ID queues have
// other nodes, and no library has Bounded or TwoPhase.
//
// Nodes above the queue are containers. The queue's node is persistent: otherwise its
// numbers could begin again while a consumer has a list of the old ones.
//
// # What it guarantees
//
// The reply to an offer or a take may be lost. A look for the item tells nothing then: it
// may have been offered and taken, or taken by another consumer. So each change is one
// multi that also sets a receipt, an ephemeral node of the session, whose version says what
// was done. It takes one request, like a plain create or delete.
//
// With ExactlyOnce, the default:
//
//   - The connection breaks, or the leader is lost: calls wait and hide it. An offer that
//     returns nil has made one item. What Poll and Take return was taken by this consumer
//     and no other, and what was taken is returned.
//   - The context ends during a change: the call waits for the change, up to two seconds.
//   - The session ends during a change: the receipt is gone. If the outcome can't be known,
//     the error is ErrUnknown, and that of a take has the items (*UnknownError). Otherwise
//     nothing was done, and the error is client.ErrSessionExpired.
//   - The session ends while a call waits for an item or for room: the error wraps
//     recipes.ErrLost and client.ErrSessionExpired. The queue works with the next session.
//   - The process dies: the items of one call are lost, unless the queue is Leased.
//   - The process is paused: a lease may be lost. Its context ends, its Ack fails, and its
//     Token is lower than that of the next lease of the item. Fence work by the token, or
//     let it do no harm twice.
//
// AtLeastOnce and AtMostOnce need no receipts. AtLeastOnce may double items; AtMostOnce may
// lose them.
//
// # Offers in two phases
//
// A TwoPhase queue creates an item as a draft, with an ID in its name. Drafts can't be
// taken, so a second one does no harm. A second request sets the flag of one draft, which
// its version allows once. Any session may repeat that: if the flag is set, or the node is
// gone because the item was taken, an earlier attempt was successful.
//
// So the producer must remember the draft before the flag is set: in memory, or written
// down between Prepare and Offer, which outlives the process. Package idempotent is for
// producers that can't. Abandoned drafts stay until somebody calls TwoPhase.Sweep.
//
// # Order
//
// One consumer takes items strictly in order. Several take them in the order in which their
// deletes are done. A consumer of a Queue, a Bounded or a Leased queue uses up its list
// before it reads it again, since later items have higher numbers; for the other kinds a
// recursive watch keeps the list up to date. A consumer sees the queue as its server does,
// which may lag behind the others.
//
// An idle consumer of a Queue watches the list, and the first item wakes all of them; with
// Options.Exclusive, and in a Leased or a Bounded queue, only the first in line is woken.
// Goroutines should share one value, which has one list and one watch.
//
// # What the caller must do
//
// Close the queue before the client. Keep items below about 1 MiB, and queues short: with
// other clients the list of items must fit into a reply of jute.maxbuffer (1 MiB, some
// 60,000 items). Keep clocks right for Delay.
//
// # Goroutines
//
// A lease has one that watches its claim, an Exclusive consumer one while it has the queue,
// and a claim that was in doubt when a context ended has one until it is withdrawn.
package queue
