// Package lock has locks across machines: a Mutex, a read-write lock (RWMutex, and with
// priorities Priority), a Semaphore, and a Multi of several locks.
//
//	m, err := lock.NewMutex(c, "/locks/backup", lock.Options{})
//	if err != nil {
//		return err
//	}
//	n, err := lock.With(ctx, m, func(ctx context.Context) (int, error) {
//		return backup(ctx) // ctx ends when the lock is lost
//	})
//
// With releases in any case. What Lock, RLock and Acquire return is a hold.Held: package
// hold says when that ends, what Release returns, and when a fencing token is needed.
//
// # Mutex
//
// Below the lock's path, which is created as a container when it is first needed, each
// contender has a sequential ephemeral node. The lowest number holds the lock; each other
// one watches the one before it, and nothing else.
//
//	/locks/backup
//	/locks/backup/_c_5f1d3c7a-…-lock-0000000004                     Curator (default)
//	/locks/backup/0d6a5c0be0b84b8f9d0e7c1b2a394857__lock__0000000005  Kazoo
//	/locks/backup/x-72057594037927936-9b1d…-0000000006              WriteLock
//
// A Mutex waits for places of all three layouts, in the order of their numbers, whichever
// Options.Layout it uses itself. The other libraries do not. A lock is safe only where each
// kind of contender waits for each other:
//
//	who waits for whom       Curator's  kazoo's  WriteLock's
//	this package             yes        yes      yes
//	Curator                  yes        no       no
//	kazoo                    no         yes      no
//	kazoo, with the extra
//	lock pattern "lock-"     yes        yes      no
//	Apache's WriteLock       yes        no       yes
//
// So the programs of one of these libraries and those of this package, with the Layout
// named for it, exclude each other; so do WriteLock and this package with the layout
// Curator, and kazoo with the pattern "lock-". Two of the other libraries at one path never
// do. Any other child makes every call fail with recipes.ErrLayout: it might be a
// contender that this package does not understand. The same is true of all locks in this
// package.
//
// After number 2147483647 the servers continue with -2147483648. This package knows; the
// others then let the newest place go first. If a path may reach that number, delete it
// while it is not in use: its numbers begin again.
//
// # RWMutex
//
// Either one writer holds it or any number of readers, in the order in which they ask.
//
//	/locks/catalog
//	/locks/catalog/_c_5f1d3c7a-…-__READ__0000000004
//	/locks/catalog/_c_9b0277e1-…-__WRIT__0000000005
//	/locks/catalog/_c_c1f3a8d0-…-__READ__0000000006
//
// A writer waits for the node before its own, a reader for the last writer's before its
// own; each watches that one node and nothing else. When a writer releases, all readers
// up to the next writer are woken, once each: it is the turn of all of them. The end of a
// reader wakes the writer after it. That writer may find another reader that is still
// there, and then watches that one: at worst as many wake-ups as there are readers between
// two writers.
//
// This is the layout of Curator's InterProcessReadWriteLock: Java programs take part. So do
// kazoo's ReadLock and WriteLock (GUID__rlock__0000000004, GUID__lock__0000000005), which
// this package knows, if they are configured to wait for those above:
//
//	zk.WriteLock(path, extra_lock_patterns=["__READ__", "__WRIT__"])
//	zk.ReadLock(path, extra_lock_patterns=["__WRIT__"])
//
// Curator does not know kazoo's, so these two must not meet at one path. Readers of kazoo
// 2.8 also wait for writers after them, which wait for them, with or without this package.
//
// A holder may ask for the lock again with the context of its Held: a writer may read so,
// and keep the read lock when it releases the write lock. What would wait for itself fails
// with ErrSelf. The read lock has a node with the same number that is not sequential, as in
// Curator since 5.5. Curator before that, and 5.4 in Debian, gives it a new number: a Java
// writer that downgrades then has readers and writers before it that do not know of it.
//
// # Priority
//
// It is an RWMutex in which contenders with a higher priority go first. No other library
// has one. A contender has a place as above, and when it acquires the lock a second node,
// the grant:
//
//	/locks/catalog                                           data: the last writer's place
//	/locks/catalog/_c_5f1d3c7a-…-p0-read-0000000004          a reader of priority 0,
//	/locks/catalog/_c_5f1d3c7a-…-p0-read-held-0000000004     which holds the lock
//	/locks/catalog/_c_9b0277e1-…-p0-write-0000000005
//	/locks/catalog/_c_c1f3a8d0-…-p7-write-0000000006         goes before the one above
//
// A contender requests the grant in one step with a check that nothing has changed since it
// found that it is its turn. Each contender watches the last one that goes before it and
// excludes it, a holder's first. A late writer costs one wake-up of the writer after it, or
// of the readers up to the next writer; a late reader costs one of the writer after it.
//
// There is no ageing: a contender of low priority waits as long as others with a higher one
// come. Readers of high priority keep writers out in the same way.
//
// # Revocation
//
// A read-write lock can be taken back: see Revoke. The data "unlock" in a contender's node
// ask it to release (Curator's Revoker writes "__REVOKE__", which is understood too). The
// holder watches its node. It consents by releasing, and refuses by restoring its data. A
// holder without RWOptions.OnRevoke does not answer, and neither does a contender that
// waits, which is asked when it holds the lock. After a grace period Revoke deletes the node.
//
// # Semaphore
//
// It has a number of leases, which bounds how many are held at a time. The layout is that of
// Curator's InterProcessSemaphoreV2: Java programs take part.
//
//	/locks/licences                                      data: "5"; none of Java programs
//	/locks/licences/leases/_c_5f1d3c7a-…-lease-0000000004
//	/locks/licences/locks/_c_9b0277e1-…-lock-0000000009
//
// A contender first stands in the line below locks, which is a Mutex. The first one there
// creates its nodes below leases, as many as it wants, and holds the leases when these are
// among the first five. Until then it watches the list, alone: a lease that is released
// wakes one contender, however many wait. Then it leaves the line, which wakes the next.
// The nodes are created before there is room, so that two contenders that both believe to
// be first, after a pause for instance, cannot both take the last lease.
//
// Several leases are held all at once or not at all. TryAcquire does not stand in the line;
// leases that others wait for count as taken. Java programs take several leases one after
// the other, and so may deadlock with each other and with this package. kazoo's Semaphore has another
// layout and must not be used at the same path.
//
// Programs with different numbers of leases would exclude each other wrongly. So the first
// one writes its number into the semaphore's node, as text, and the others fail with
// ErrLimit. Java programs neither write nor read it. It disappears with the node, when
// nobody has used the semaphore for a while. To change the number at once, set the data of
// the node when all programs with the old one have stopped, or use NewCountedSemaphore: a higher
// number then wakes the contender that waits for room, and after a lower one nobody gets a
// lease until enough are released.
//
// # Goroutines
//
// All types may be used from any goroutine. OnRevoke runs in a separate goroutine.
package lock
