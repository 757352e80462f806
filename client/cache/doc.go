// Package cache keeps a subtree in memory and up to date, so that reading it needs no round
// trip.
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
//	workers := cache.ValuesOf[Worker](k, nil) // the data as Go values
//
// # What it promises
//
//   - A node in the cache is one that the server had: its data belong to its
//     Stat. Nodes of different paths may be from different moments, except with a
//     feed: see below.
//   - It never goes back: neither to an older state of a node, nor from a node to
//     the one that was deleted before it, whichever server the session
//     moves to.
//   - While the connection lasts, a change is in the cache at most one round trip
//     after the server has sent its event. Nothing is missed by a lost connection, a
//     new server, or a session that expires and is replaced (Options.RenewSession of
//     the client): the cache continues its feed, or reads everything again, and
//     listeners get the differences.
//   - The events together give the contents of the cache.
//   - When Sync returns, the cache has everything that was committed before the
//     call.
//
// On servers that offer feeds, such as zkd's, and have room for one more, and without Options.Depth, Filter and OneShot:
//
//   - Listeners get every change, in order, unless the cache was away, or slow, for
//     so long that the server has forgotten some: then it reads everything again,
//     between Stale and Fresh.
//   - While it is not stale, the cache is the subtree as it was at one zxid, but for
//     transactions of more than 10,000 changes, which may come in parts, and nodes
//     whose data is longer than half of the server's jute.maxbuffer. Where the client
//     may not read all children of a node, its Stat is as of the last change that it
//     may see.
//   - A node that the client may no longer read goes at once, and comes back when it
//     can be read again.
//
// # What may be stale
//
// While the connection is lost the cache answers with what it has, and Stale
// says so, until all is read that may have changed. A connection that has just
// died silently is not noticed at once, but after two thirds of the session's
// timeout. Two caches with different servers may differ by as much as the servers
// lag. Sync before a read avoids all of that.
//
// Without a feed, the servers send no event for a change of an ACL, so
// Stat.Aversion may be old until the node changes otherwise, and a node that becomes
// readable is seen at its next change. Some of the servers' own nodes, below /zookeeper, change
// without an event: a cache of / omits them.
//
// After a new session the cache waits for a server that knows all that the cache
// has seen. If the ensemble has lost data (it was restored from a backup) it
// stays stale: open another one.
//
// # How it works
//
// One goroutine owns the cache. Where it can, it reads the subtree as it was at one
// zxid, in pages, and follows the changes after that by a feed, which costs one event for
// many changes and no read.
//
// Elsewhere a persistent recursive watch reports the paths that have changed. The goroutine reads these paths, pipelined, one read of a
// path at a time. Only reads change the cache, in the order in which the server
// answered them, so it can't go back, whatever the order of events. The children
// of a new node are listed once, in pages if they are too many for one reply; the
// watch reports later ones.
//
// Servers before ZooKeeper 3.6 have no persistent watches. The cache then sets
// two one-shot watches on each node. The promises are the same, the cost is not: two
// reads for each node, and some hundred bytes for each watch. Also, servers that
// know of CVE-2024-23944 discard a one-shot watch without an event when the client may
// no longer read the node; they all have persistent watches.
package cache
