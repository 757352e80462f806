// Package partitioner divides a set among the members of a group: each partition is one
// member's, and each member has as many as the others, or one more. When members come
// or go, partitions change hands.
//
//	p, err := partitioner.New(c, "/queues", []string{"q1", "q2", "q3"}, partitioner.Options{})
//	if err != nil {
//		return err
//	}
//	return p.Run(ctx, func(ctx context.Context, own *partitioner.Partition) {
//		for ctx.Err() == nil { // ctx ends when the partition is to be given up, or lost
//			serve(ctx, own.Name())
//		}
//	})
//
// # Layout on the tree
//
//	/queues                 a container
//	/queues/party           a group, in the layout group.ShallowParty: the members
//	/queues/locks/q1        a lock, in the layout lock.Kazoo: whose q1 is
//
// That is the layout of kazoo's SetPartitioner, and Options.Assign is as its own by
// default: programs with kazoo can be members of the same group, if they have the same
// set and IDs of their own. Curator and Apache have no such recipe.
//
// # How partitions change hands
//
// From who is there, and which partitions there are, each member works out by itself
// which are its own, with the same result. When that changes, it gives up at once those
// that are not its own any more: the context of their work ends, and when the work has
// returned the lock is unlocked. Then, or as soon as their owners before have done the
// same, it gets the locks of those that are new. Those that stay with it are not
// interrupted. (kazoo's gives all of them up at each change, and waits until there has
// been none for half a minute.)
//
// # What it guarantees
//
// No two members own one partition, whatever they think of who is there: the lock is
// what counts. See package lock for how long a lock lasts, and for Partition.Token and
// Guard, which protect from a member that was stopped and doesn't know yet that its time
// has passed.
//
// When nothing changes any more, each partition has an owner, and they are even.
//
//   - Connection lost before or after a request: hidden. While it is down partitions stay
//     owned until client.Status.Deadline.
//   - Session ended: the contexts of all work end, with a cause that wraps
//     recipes.ErrLost. With client.Options.RenewSession the member joins again. Without,
//     Run returns recipes.ErrLost.
//   - Process paused for longer than the session's timeout: the same.
//   - Leader lost: as connection lost.
//   - Partitions or members that differ from one to another: nobody owns a partition
//     twice, but some may have no owner.
//
// # What the caller must do
//
// Return from the work soon after its context has ended: the partition is nobody else's
// before, unless it was lost, when it may be at once.
//
// # Goroutines
//
// Run has one for each partition that is the member's own, or is being given up, those
// of its locks and its group, and they are gone when it returns. All methods may be
// called from any goroutine.
package partitioner
