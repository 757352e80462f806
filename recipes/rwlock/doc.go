// Package rwlock is a lock for readers and writers across machines: either one writer
// holds it or any number of readers.
//
//	l, err := rwlock.New(c, "/locks/catalog", rwlock.Options{})
//	if err != nil {
//		return err
//	}
//	held, err := l.RLock(ctx) // or Lock, to write
//	if err != nil {
//		return err
//	}
//	defer held.Unlock(context.WithoutCancel(ctx))
//	return show(held.Context()) // which ends when the lock is lost
//
// An RWLock is served in the order in which it is asked for. A Priority lets those with
// a higher priority go first. Either can be taken back: see Revoke.
//
// # Layout on the tree
//
// Below the lock's path, which is made as a container when it is first needed, each
// contender has a sequential ephemeral node. Its data say who it is.
//
//	/locks/catalog
//	/locks/catalog/_c_5f1d3c7a-…-__READ__0000000004
//	/locks/catalog/_c_9b0277e1-…-__WRIT__0000000005
//	/locks/catalog/_c_c1f3a8d0-…-__READ__0000000006
//
// A writer waits for the node before its own, a reader for the last writer's before its
// own; each watches that one node and nothing else. When a writer unlocks, all readers
// behind it, up to the next writer, are woken at once, once each: they all have their
// turn, so that is no herd. The end of a reader wakes the writer right behind it. That
// one may find another reader that is still there, and then watches that: as many
// wake-ups as there are readers between two writers, at worst.
//
// This is the layout of Curator's InterProcessReadWriteLock: Java programs take part. So
// do kazoo's ReadLock and WriteLock, whose nodes are GUID__rlock__0000000004 and
// GUID__lock__0000000005 and which this package knows, if they are told of ours:
//
//	zk.WriteLock(path, extra_lock_patterns=["__READ__", "__WRIT__"])
//	zk.ReadLock(path, extra_lock_patterns=["__WRIT__"])
//
// But beware of kazoo's readers: those of kazoo 2.8 wait for writers behind them, too,
// which wait for them; that is so without us as well.
//
// Curator does not know kazoo's, so those two must not meet at one path. Any other child
// makes every call fail with recipes.ErrLayout. Children of a package lock mutex are such.
//
// A read lock beside another lock (see RLock) has a node with the same number that is not
// sequential, as Curator's has since 5.5. Curator before that, and 5.4 as Debian has it,
// gives it a new number: a Java writer that downgrades then has readers and writers
// before it that don't know of it. Ours are safe either way.
//
// # Layout of a Priority
//
// No other library has one. A contender has a place as above, and when it gets the lock a
// second node, the grant:
//
//	/locks/catalog                                           data: the last writer's place
//	/locks/catalog/_c_5f1d3c7a-…-p0-read-0000000004          a reader of priority 0,
//	/locks/catalog/_c_5f1d3c7a-…-p0-read-held-0000000004     which holds the lock
//	/locks/catalog/_c_9b0277e1-…-p0-write-0000000005
//	/locks/catalog/_c_c1f3a8d0-…-p7-write-0000000006         goes before the one above
//
// The numbers alone can't say who holds it, as a later place may go before an earlier
// one. So who finds that it is its turn asks the servers for the grant in one step, a
// multi, which they do only if the lock's node has the version that it had, at the very
// moment of the list that the decision rests on:
//
//   - A reader's multi checks the version and makes the grant. It then has the lock.
//   - A writer's multi changes the version and makes the grant. From then on nobody else
//     gets one: those who looked before fail at the version, those who look later see
//     the grant. The writer has the lock once it sees no other grant. Readers may have
//     got theirs between its look and its multi; they are few, and it waits for them.
//
// So readers don't get into each other's way, and whoever comes too late for a grant,
// though it has a higher priority, sees it and waits. The version can't be used up or
// begin anew meanwhile, as the node has children.
//
// Everybody watches one node: the place of the last one that goes before it and that it
// can't share the lock with, a holder's first. A contender that comes late but goes
// before others is not known to who waits behind it. When what that one watches is gone,
// it looks, finds the late one, and watches that. So each late writer costs those right
// behind it one wake-up each, which is one writer or the readers up to the next writer;
// a late reader costs the writer behind it one. Nothing else is woken in vain, but by
// contenders that give up.
//
// Who has a low priority waits as long as others come with a higher one, for ever if
// need be: there is no ageing. Readers of high priority keep writers out in the same way.
//
// # Revocation
//
// Data "unlock" in a contender's node ask it to unlock (Curator's Revoker writes
// "__REVOKE__", which is understood, too). The holder watches its node. It consents by
// unlocking, after whatever work it has to do first. It refuses by putting back the
// data that were there before. Whoever asked sees either. A holder without an OnRevoke,
// and one that waits in the line, does not answer; the latter is asked when it has the
// lock. Revoke with a grace time deletes the node in the end: then the holder's context
// ends. Options.Audit is told how each case has ended.
//
// # What is guaranteed
//
// While the node of a holder exists nobody gets the lock whom it excludes. Held.Context
// ends, and Held.Err says recipes.ErrLost, when the node may be gone:
//
//   - Connection lost before or after any request: it is repeated where its outcome
//     can be found out, and no request makes a second node. While the connection is
//     down the lock counts as held until client.Status.Deadline, less
//     Options.Reserve: until then the servers give it to nobody.
//   - The session has expired, or the servers may have ended it: the lock is lost. A
//     wait fails with recipes.ErrLost; the caller may begin anew.
//   - The node was deleted, by Break, by Revoke or by hand: lost.
//   - The servers lose their leader: as with a lost connection. Nobody gets the lock
//     meanwhile, as that takes a leader.
//   - The process is stopped, and goes on after others have got the lock: it does not
//     know for a moment. Only a fencing token protects from that.
//
// Whoever gives up waiting leaves no node: if no server can be reached it is deleted once
// one can, or goes with the session. The same is true of Unlock.
//
// # What the caller must do
//
// Stop when Held.Context ends. Where a late write would do damage, fence: give Held.Token
// along with each write to a store that refuses tokens lower than one it has seen, or if
// the store is ZooKeeper, write with Client.Multi and Held.Guard.
//
// Don't ask for the lock while holding it, but with the context of the Held: a writer may
// read so, and keep the read lock when it unlocks the write lock. What would wait for
// itself is refused then, with ErrSelf.
//
// # Goroutines
//
// Locks and Helds may be used from any goroutine. A Held has two goroutines of its own,
// that of a Priority four, until it is unlocked or lost, and one for OnRevoke while that
// runs.
package rwlock
