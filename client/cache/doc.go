// Package cache keeps a subtree in memory, and up to date: reading it costs no
// round trip.
//
//	k, err := cache.Open(ctx, c, "/services", cache.Options{})
//	if err != nil {
//		return err
//	}
//	defer k.Close()
//	if err := k.WaitReady(ctx); err != nil {
//		return err
//	}
//	node, ok := k.Get("/services/web/1")
//
// # What it promises
//
//   - A node in the cache is one that the server had: its data belong to its
//     Stat. Nodes of different paths may be from different moments.
//   - It never goes back: neither to an older state of a node, nor from a node to
//     the one that was deleted before it, on whatever server the session goes on.
//   - While the connection is there, a change is in the cache a round trip after
//     the server has told of it. Nothing is missed by a lost connection, a new
//     server, or a session that expires and is replaced (Options.RenewSession of
//     the client): all is looked at again, and listeners get the differences.
//   - What the events tell, put together, is what the cache has.
//   - When Sync returns, all that was committed before it was called is in.
//
// # What may be stale
//
// While the connection is lost the cache answers with what it has, and Stale
// says so, until all is read that may have changed. A connection that has just
// died silently is not noticed at once, but after two thirds of the session's
// timeout. Two caches with different servers may differ by as much as the servers
// lag. Sync before a read is the cure for all of that.
//
// The servers tell nobody of a change of an ACL, so Stat.Aversion may be old until
// something else happens to the node; and a node that becomes readable is seen
// when it is next changed. They keep nodes of their own below /zookeeper, some of
// which change without a word: a cache of / leaves them out.
//
// After a new session the cache waits for a server that knows all that the cache
// has seen. If the ensemble has lost data (it was restored from a backup) it
// stays stale: open another one.
//
// # How it works
//
// One goroutine owns the cache. A persistent recursive watch tells it which paths
// have changed; it reads those, pipelined, one read of a path at a time. Only what
// is read changes the cache, in the order in which the server answered: that is
// why it can't go back, whatever the order of events. A node that is new is
// listed if it has children; later ones are told by the watch.
//
// Servers before ZooKeeper 3.6 have no persistent watches. The cache then sets
// two one-shot watches on each node. The promises are the same, the cost is not: two
// reads for each node, and some hundred bytes for each watch. Also, servers that
// know of CVE-2024-23944 use up a one-shot watch without a word when the client may
// no longer read the node; they all have persistent watches.
package cache
