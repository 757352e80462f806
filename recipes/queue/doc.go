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
//   - Priority: what is more urgent goes first, also if it comes later.
//   - Delay: an item can be taken from a time on.
//   - Bounded: whoever offers to a full queue waits.
//   - TwoPhase: an offer can be repeated after the end of its session or process.
//   - Leased: an item stays in the queue until the work on it is acknowledged, and is
//     given to somebody else if the consumer dies. The others forget an item when it is
//     taken: what its consumer does not do then nobody does.
//
// # Layout on the tree
//
//	path/qn-0000000007                 an item of a Queue: Apache, the default
//	path/entry-100-0000000007          Kazoo: a Queue's, or a Priority queue's, 100 its priority
//	path/queue-07-0000000007           Book: a Priority queue's, 7 its priority
//	path/queue-|18BCFE56800|0000000007 a Delay queue's: milliseconds since 1970 in hex, and
//	                                   the data in a frame: see frame.go
//	path/items/qn-000003-0000000007    a Bounded queue's, in slot 3
//	path/slots/000003                  the slot is in use
//	path/_c_ID-item-0000000007         a TwoPhase queue's; the data has a flag before it, "1"
//	                                   if the item can be taken and "0" if not: see flag.go
//	path/entries/entry-100-0000000007  a Leased queue's; its version counts the claims
//	path/taken/entry-100-0000000007    ephemeral: somebody has it; data: the claim's ID
//	path/dead/entry-100-0000000002     an item with more than Options.MaxAttempts
//	path/waiting/_c_GUID-waiting-#     ephemeral: who waits, of Bounded and Leased
//	path-receipts/GUID                 ephemeral: see below
//	path-consumer/_c_GUID-lock-#       ephemeral: a consumer with Options.Exclusive
//
// Apache's DistributedQueue and Curator's SimpleDistributedQueue use the same queue as a
// Queue does, kazoo's Queue the same as one with Kazoo or a Priority queue, kazoo's
// LockingQueue the same as Leased, and Curator's DistributedDelayQueue, with items that
// it was given one by one, the same as Delay. What they promise of the items which they
// offer or take themselves is less. Nobody else knows Bounded, nor TwoPhase: consumers
// of the others would take what has no flag. Curator's DistributedQueue and its priority
// and ID queues are different.
//
// Nodes above the queue are containers. The queue's own node is not: its numbers would
// begin anew while a consumer has a list of the old ones.
//
// # What it guarantees
//
// The reply to an offer or a take can get lost with the connection. To look for the item
// afterwards would tell nothing: it may have been offered and taken already, or been
// taken by somebody else. So each change is one multi with the set of a receipt, an
// ephemeral node of one's own, whose version says what was done. It needs one request,
// like a plain create or delete; receipts are made when first needed and used again and
// again. A receipt goes with its session: for offers that must outlive that there is
// TwoPhase, below.
//
// With ExactlyOnce, the default:
//
//   - Connection lost before or after any request: hidden. An offer that returns nil has
//     made one item. What Poll and Take return was taken by this consumer and by no one
//     else, and what was taken is returned.
//   - Leader lost: as connections lost; calls wait until there is a new one.
//   - Context ended while a change is under way: it is waited for, two seconds at most,
//     and counts as done if it was.
//   - Session ended while a change is under way: the receipt is deleted with the session.
//     If it can't be known what happened, the error is ErrUnknown; a take's error has the
//     items in it, as an *UnknownError. If it is known that nothing happened, the error is
//     client.ErrSessionExpired.
//   - Session ended while a call waits for an item or for room: the error wraps
//     recipes.ErrLost and client.ErrSessionExpired. The queue can be used again with the
//     client's next session.
//   - Process dies: what it has taken and not worked on is lost, unless the queue is
//     Leased. At most the batch of one call is: nothing is taken ahead.
//   - Process paused: it does no harm. A Lease may have been lost meanwhile: its context
//     ends when the process goes on, its Ack fails, and its Token is lower than that of
//     whoever has the item now. Work must be fenced by the token, or do no harm twice.
//
// AtLeastOnce and AtMostOnce do without receipts, for a little more speed: the first
// repeats offers blindly, and returns items that another consumer may have; the second
// never repeats an offer that may have been done, nor returns such items.
//
// # Offers in two phases
//
// A TwoPhase queue has an item there as a draft first, with an ID in its name. Drafts
// can't be taken, so there is no harm in a second one, of an offer whose reply was lost.
// The next request sets the flag of one of them, by its version once at most. If the
// connection breaks, or the session ends, it is sent again, in any session:
//
//   - The draft is there: it becomes consumable now.
//   - It has the flag: an attempt before has set it.
//   - It is gone: it had the flag, and was taken.
//
// So the producer has to remember which draft it is, before the flag is set: a Draft in
// memory does, and written down between Prepare and Offer it outlives the process. The
// ID alone does not: whether an item was taken or never offered doesn't show when it is
// not there. Producers that can't remember more are served by package idempotent, which
// remembers for them, at a node for each ID.
//
// What a producer leaves that never comes back is a draft. Consumers see it once, and
// pass it over; a recursive watch tells them when it gets its flag. Nothing removes it
// but TwoPhase.Sweep, which somebody has to call now and then with an age that no
// offer which is still being repeated has: to come back to a draft that was swept is
// to find it gone. If an item is that important, write down when the draft was made, and
// don't repeat older ones.
//
// A Take of a TwoPhase queue is one of the others: ExactlyOnce as long as the session
// lives.
//
// # Order
//
// One consumer at a time takes strictly in order. Several take in the order in which
// their deletes are done. A consumer works its list off before it reads it again, since
// what comes later has higher numbers; where that is not so, in Priority, Delay and
// TwoPhase, a recursive watch keeps the list up to date: those need servers of version
// 3.6 or later. A consumer sees a queue as its server does, which may lag behind: Poll
// that finds nothing does not mean that there was nothing anywhere.
//
// An idle consumer of a Queue has a watch on the list of items, and all idle consumers
// are woken by the item that ends the wait; with Options.Exclusive, and in a Leased or a
// Bounded queue, they stand in a line and only the first is. Goroutines that share one
// value share its list and its watch: that is better than a value for each.
//
// # What the caller must do
//
// Close the queue before the client. Give items of more than about 1 MiB another place
// and offer their names. Keep queues short: the list of items has to fit in a reply, of
// jute.maxbuffer (1 MiB, some 60,000 items) with other clients. Use one capacity for a
// Bounded queue everywhere. Keep clocks right for Delay.
//
// # Goroutines
//
// A call runs in the caller's goroutine. A Lease has one that watches its claim, until
// it has ended; an Exclusive consumer has one while it has the queue; and a claim that
// was left in doubt when a context ended has one until it is withdrawn.
package queue
