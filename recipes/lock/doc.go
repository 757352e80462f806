// Package lock is mutual exclusion across machines: of all that ask for a lock, one
// holds it at a time.
//
//	m, err := lock.New(c, "/locks/backup", lock.Options{})
//	if err != nil {
//		return err
//	}
//	n, err := lock.With(ctx, m, func(ctx context.Context) (int, error) {
//		return backup(ctx) // ctx ends when the lock is lost
//	})
//
// With unlocks in any case. Lock, TryLock and Held.Unlock are for what does not fit in
// a function, NewMulti for several locks at once.
//
// # Layout on the tree
//
// Below the lock's path, which is made as a container when it is first needed, each
// contender has a sequential ephemeral node. Its data say who it is. The lowest number
// holds the lock; each other one watches the one before it, and nothing else.
//
//	/locks/backup
//	/locks/backup/_c_5f1d3c7a-…-lock-0000000004                     Curator (default)
//	/locks/backup/0d6a5c0be0b84b8f9d0e7c1b2a394857__lock__0000000005  Kazoo
//	/locks/backup/x-72057594037927936-9b1d…-0000000006              WriteLock
//
// A child that is none of these makes every call fail with recipes.ErrLayout: it might
// be the place of somebody whom this package can't understand.
//
// # Programs in other languages
//
// Three libraries, three layouts. This package waits for places of all of them, in
// the order of their numbers, whichever Options.Layout it uses itself. The others
// don't: a lock is safe only where each kind of contender waits for each other.
//
//	who waits for whom       Curator's  kazoo's  WriteLock's
//	this package             yes        yes      yes
//	Curator                  yes        no       no
//	kazoo                    no         yes      no
//	kazoo, with the extra
//	lock pattern "lock-"     yes        yes      no
//	Apache's WriteLock       yes        no       yes
//
// So the programs of one of these libraries and those of this package, with the
// Layout named for it, exclude each other; WriteLock and this package with the layout
// Curator do, too, as does kazoo with the pattern "lock-". Two of the other libraries
// at one path never do.
//
// The servers count to 2147483647 and go on at -2147483648. This package knows; the
// others then let the newest place go first. Where a path may see so many locks, delete
// it while nobody uses it: its numbers begin again.
//
// # What is guaranteed
//
// While the node of the holder exists nobody else gets the lock. Held.Context ends, and
// Held.Err says recipes.ErrLost, when the node may be gone:
//
//   - Connection lost before or after any request: it is repeated where its outcome
//     can be found out, and no request makes a second node. While the connection is
//     down the lock counts as held until client.Status.Deadline, less
//     Options.Reserve: until then the servers give it to nobody.
//   - The session has expired, or the servers may have ended it: the lock is lost. A
//     wait fails with recipes.ErrLost; the caller may begin anew.
//   - The node was deleted, by an administrator or by Break: lost.
//   - The servers lose their leader: as with a lost connection. Nobody gets the lock
//     meanwhile, as that takes a leader.
//   - The process is stopped, and goes on after others have got the lock: it does not
//     know for a moment. No lock can help that; see below.
//
// Whoever gives up waiting, because its context has ended or for any other reason,
// leaves no node: if no server can be reached the node is deleted once one can, or goes
// with the session. The same is true of Unlock, which is why it needn't be repeated.
//
// A hand-over takes three round trips, of the delete, of the list that shows the next
// one that it is first, and, while that one works already, of the read that watches its
// own node. It wakes one contender, however many there are.
//
// # What the caller must do
//
// Stop when Held.Context ends. Where a late write would do damage, fence: give
// Held.Token along with each write to a store that refuses tokens lower than one it has
// seen, or if the store is ZooKeeper, write with Client.Multi and Held.Guard, which
// fails once the lock is lost. In With's function FromContext has the Held:
//
//	held, _ := lock.FromContext(ctx)
//	_, err := c.Multi(ctx, held.Guard(client.SetOp("/report", data, client.AnyVersion))...)
//
// # Goroutines
//
// A Mutex and a Held may be used from any goroutine. A Held has two goroutines of its
// own, which watch over its node, until Unlock, which is due also when it is lost; that
// of a Multi has those of its locks.
package lock
