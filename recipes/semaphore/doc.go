// Package semaphore shares a number of leases among machines: at most so many are held at
// a time.
//
//	s, err := semaphore.New(c, "/locks/licences", 5, semaphore.Options{})
//	if err != nil {
//		return err
//	}
//	lease, err := s.Acquire(ctx, 1)
//	if err != nil {
//		return err
//	}
//	defer lease.Return(context.WithoutCancel(ctx))
//	return work(lease.Context()) // which ends when the lease is lost
//
// # Layout on the tree
//
// It is that of Curator's InterProcessSemaphoreV2: Java programs take part.
//
//	/locks/licences                                      data: "5"; of Java programs none
//	/locks/licences/leases/_c_5f1d3c7a-…-lease-0000000004
//	/locks/licences/locks/_c_9b0277e1-…-lock-0000000009
//
// Whoever wants leases first stands in the line below locks, which is a mutex as in
// package lock: each watches the one before it. Who is first there makes his nodes below
// leases, as many as he wants, and has the leases when these are among the first five.
// Until then he watches the list, he alone: a lease that is returned wakes one contender
// however many wait. Then he leaves the line, which wakes the next one. The nodes are made
// before there is room, so that two who think themselves first in the line, after a pause
// say, can't both take the last lease: that rests on the order of the nodes alone. Nodes
// that are missing are made as containers.
//
// TryAcquire does not stand in the line, but looks. Leases that others wait for count as
// taken; so it passes nobody but who has just come.
//
// kazoo's Semaphore has another layout, whose leases are children of the path itself and
// whose lock is beside it: it must not be used at the same path.
//
// # How many leases
//
// Either the programs know the number, or it is in a node that Options.Count names, in the
// format of Curator's SharedCount, and each change is followed: more leases wake the one
// who waits for them; if there are fewer, none is taken from who has it, but nobody gets
// one until enough are returned.
//
// Programs that say different numbers could each think that they are right: the highest of
// the numbers would be held. So the first one writes it into the semaphore's node, as text
// (kazoo does so with its own), and the others fail with ErrLimit. Java programs neither
// write nor read it. It goes with the node, when nobody has used the semaphore for a
// while. To change the number at once, set the data of the node when all that say the old
// one have stopped.
//
// # What is guaranteed
//
// No more leases are held at a time than there are. Lease.Context ends, and Lease.Err says
// recipes.ErrLost, when the node may be gone:
//
//   - Connection lost before or after any request: it is repeated where its outcome
//     can be found out, and no request makes a second node. While the connection is
//     down the lease counts as held until client.Status.Deadline, less
//     Options.Reserve: until then the servers give it to nobody.
//   - The session has expired, or the servers may have ended it: the lease is lost. A
//     wait fails with recipes.ErrLost; the caller may begin anew.
//   - The node was deleted, by Break or by hand: lost.
//   - The servers lose their leader: as with a lost connection.
//   - The process is stopped, and goes on after others have got its lease: it does not
//     know for a moment.
//
// Whoever gives up waiting leaves no node: if no server can be reached it is deleted once
// one can, or goes with the session. The same is true of Lease.Return.
//
// Several leases are had all at once or not at all: who waits for three keeps those behind
// him waiting, but doesn't hold two meanwhile that others could deadlock over. Java
// programs take them one after the other, and so may deadlock with each other and with us.
//
// # What the caller must do
//
// Stop when Lease.Context ends. Tokens grow in the order in which leases are acquired; as
// several are held at a time a store can't refuse all but the newest one. If the store is
// ZooKeeper, write with Client.Multi and Lease.Guard.
//
// # Goroutines
//
// A Semaphore and a Lease may be used from any goroutine. A Lease has two goroutines of its
// own for each of its N, until it is returned or lost.
package semaphore
