// Package presence has recipes with which programs announce that they are alive, and other
// programs see them.
//
//   - Node: an ephemeral node that comes back after the end of a session or a deletion.
//   - Group: members join, release their Membership, and see each other.
//   - Board: workers report their status, and others monitor them.
//   - Directory: instances of services register, and a Provider picks one.
//   - Partitioner: a set is divided among the members of a group.
//
// For example, with a client that has Options.RenewSession:
//
//	g, err := presence.NewGroup(c, "/workers", presence.Options{})
//	me, err := g.Join(ctx, "w1", []byte("10.0.0.1:8080"))
//	if err != nil {
//		return err
//	}
//	defer me.Release(ctx)
//	for view, err := range g.Follow(ctx) { // view.Members, view.Joined, view.Left
//
// # Layout on the tree
//
// Each node is ephemeral; those above it are containers.
//
//	Node          the path, with the data. NodeOptions.Protected puts "_c_", a GUID and "-"
//	              before the name, and NodeOptions.Sequential also appends a number.
//	              Curator's PersistentNode.
//	Group         path/ID with the data (Named, Curator's GroupMember);
//	              path/32 hex digits__party__ with the ID (Party, kazoo's Party); or
//	              path/32 hex digits-ID with "0" (ShallowParty, kazoo's ShallowParty)
//	Board         as a Group that is Named; the data is the status, as text
//	Directory     path/service/ID with an Instance as JSON: Curator's x-discovery with its
//	              JsonInstanceSerializer, which Spring Cloud Zookeeper uses, too. "enabled"
//	              is left out when it is true, as old versions don't know it. What Java
//	              reads as an object needs an "@class" in its payload.
//	Partitioner   path/party is a Group, ShallowParty; path/locks/PARTITION a lock with the
//	              layout lock.Kazoo: kazoo's SetPartitioner, which can take part with the
//	              same set and another ID
//
// # What it guarantees
//
// A Node exists at most once, and not after Close. Its data is the newest that was set: an
// older one never replaces it, even if the reply to a set was lost: the Node first reads
// which data is there. The same is true of members, workers and instances, which are Nodes.
//
//   - The connection breaks, or the leader is lost: hidden. Followers and Providers keep
//     what they know, and report that it is stale.
//   - The session ends: with client.Options.RenewSession the Node comes back in the next
//     session, with its newest data; others see it go and come. A node of the session
//     before is waited for, not deleted. Otherwise it ends with recipes.ErrLost.
//   - The process is paused for longer than its session's timeout: the same.
//   - Somebody deletes the node: it comes back, unless NodeOptions.EndIfDeleted is set.
//   - Another node is at the path: client.ErrNodeExists, unless Patient is set, which waits
//     for it to go; recipes.ErrLayout if it is not ephemeral. (Curator's discovery takes
//     the place of the other one.)
//   - Other nodes among the children: recipes.ErrLayout. A Group with layout Party, and a
//     Provider, skip them.
//
// Followers do not miss a member that stays. Changes that come faster than the loop takes
// them are combined.
//
// # How partitions change hands
//
// Each member computes its partitions from the set and the members, with the same result.
// When that changes, it ends the work on those that are no longer its own, unlocks them when
// the work has returned, and acquires the new ones; the others continue. (kazoo gives up all
// of them at each change.) No two members own one partition, whatever they know of each
// other, since owning means to hold the lock: see package lock, and Partition.Token and
// Guard. If members disagree on the set, a partition may have no owner.
//
// # What the caller must do
//
// Release what was joined or registered, and close a Node, before the client; watch Done
// where presence is a condition for the work. Treat what is seen as alive a session timeout
// ago. Report an instance that does not serve with Provider.Failed, and pick another. Return
// from the work on a partition soon after its context has ended.
//
// # Cost
//
// There is no polling. A Node costs a create, a read with a watch, and a write for each
// change that the servers had time for. A follower has one persistent watch (with servers
// before ZooKeeper 3.6 two one-shot ones for each child: see client/cache), and each change
// costs it one event and one or two small reads, however many children there are.
//
// # Goroutines
//
// A Node has one until Close, and so has what is made of it. Follow and Provider have those
// of client/cache. Partitioner.Run has one for each partition that is assigned to it or is
// being given up. All methods may be called from any goroutine.
package presence
