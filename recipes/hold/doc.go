// Package hold is the contract of everything that a client can hold: a lock, leases of a
// semaphore, leadership. It has the type of what is held, Held, the list of
// its contenders, and the options that all recipes have in common. Packages lock and
// election return Helds and add nothing to what is said here.
//
//	held, err := mutex.Lock(ctx) // or a semaphore's Acquire, a latch's Await, …
//	if err != nil {
//		return err
//	}
//	defer held.Release(context.WithoutCancel(ctx))
//	return work(held.Context()) // ends when the lock is lost, and when ctx ends
//
// # What holding means
//
// A contender is an ephemeral node, which belongs to a session. The recipe decides from
// the list of these nodes which of them hold. While the node of a holder exists, the
// recipe excludes others; so everything below is about the question whether the node
// still exists, which a client that the network has cut off cannot ask.
//
// # When it ends
//
// A Held ends by Release, or it is lost. When it may have been lost, Held.Context ends
// with a cause that wraps recipes.ErrLost, and Held.Err returns that cause:
//
//   - The connection is lost: nothing ends yet. It is held until client.Status.Deadline,
//     less Options.Reserve. Until then the servers give it to nobody else. If the client
//     connects again before, it remains held. The same applies when the servers lose their
//     leader: nobody can acquire anything without one.
//   - The session has expired, or the servers may have ended it: lost.
//   - The node was deleted, by Break, by an administrator or by a recipe's own means of
//     taking back: lost.
//   - The node cannot be watched, because its ACL forbids reading: lost.
//   - The process was suspended and resumes after others have acquired it: lost, but
//     the process does not know for a moment. Err looks at the clock, and so notices
//     earlier than Context. Only fencing closes the gap.
//
// Held.Context also ends when the context ends with which it was acquired, so that a program
// that is asked to end does. That does not release it: it is held until the work has ended
// and Release was called. If only the wait must end, for example after a time, use WaitOnly.
// (Leadership that a Latch, a Campaign or Run has acquired is released when these end.)
//
// # Requests that break
//
// A request that is interrupted by the loss of the connection is repeated if its outcome
// can be determined, and never creates a second node. A call that gives up waiting, for
// whatever reason, leaves no node: if no server answers, the node is deleted in the
// background as soon as one does, or disappears with the session. Release does the same.
//
// A call that waits returns recipes.ErrLost if its own place has disappeared, because the
// session ended or because somebody broke it. It may be called again.
//
// # Release
//
// Release deletes the node. It does so even if its context has ended, waits at most two
// seconds for the servers, and leaves the rest to the background, so it need not be
// repeated. It must be called for a Held that was lost, too. It returns
//
//   - nil: it was held until the end. (If the connection broke during the deletion, and
//     somebody broke it at that moment, nobody can tell.)
//   - recipes.ErrLost: it was lost before. What was done under it may have been done at
//     the same time as something that it should have excluded.
//   - an error for which client.IsAmbiguous reports true: no server has answered. By the
//     clock it was held until now, but somebody may have broken it meanwhile.
//   - recipes.ErrNotHeld: it was released before, by the caller or by the recipe.
//   - a server's error such as client.ErrNoAuth: the node remains, until the session ends.
//
// # Fencing
//
// Stop working when Held.Context ends. Where a late write would do damage, that is not
// enough: the process may be suspended between the check and the write. There are three
// remedies:
//
//   - If the data are in an ensemble of zkd's servers, Protect their nodes. The servers then
//     refuse writes of all but the holder, by any program in any language.
//   - If the data are in the same ensemble, write with Client.Multi and Held.Guard. The
//     servers then perform the write only if the nodes of the Held still exist.
//   - Otherwise send Held.Token with each write, to a store that rejects tokens lower than
//     the highest one it has seen. A token is a zxid, and is larger than the tokens of all
//     that held before and had to release first. (Of a semaphore several are held at once,
//     so a store cannot reject all but the newest.)
//
// # Contenders
//
// Each recipe lists its contenders in the order in which they hold. The functions
// Contenders and Break do so for any lock or election of any library, for tools.
//
// # Cost
//
// A hand-over takes three round trips: the delete; the list in which the next contender
// finds itself to be first; and the read that watches its node, which takes place while it
// already works. It wakes one contender, however many there are, except where a recipe
// says otherwise.
//
// # Goroutines
//
// A Held may be used from any goroutine. It has two goroutines for each of its nodes,
// which watch it, until it is released or lost.
package hold
