// Package cacheview shows what a client/cache holds as typed values: one node, the
// children of a node, or all that is below it.
//
//	workers, err := cacheview.OpenChildren(ctx, c, "/app/workers", cacheview.Options[Worker]{})
//	if err != nil {
//		return err
//	}
//	defer workers.Close(ctx)
//	all, err := workers.Current() // map[string]Worker, without asking the servers
//	for change, err := range workers.Follow(ctx) { ... }
//
// Node is what NodeCache is in Curator and DataWatch in kazoo, Nodes what
// PathChildrenCache and TreeCache are, and ChildrenWatch. What they don't show,
// such as all Stats, is in client/cache itself. Configuration, with defaults and checks,
// is in recipes/config.
//
// # Layout on the tree
//
// Any. Nothing is written. The data of nodes are what the codec reads; a node without
// data, as parents often are, is left out if the codec can't read that.
//
// # What it guarantees
//
// That of client/cache: nothing is missed and nothing goes back, through lost
// connections, killed leaders, and with Options.RenewSession of the client through the
// end of the session. While the connection is lost, or the process is stopped, what is
// shown gets old; Stale and Sync are for that. If the session ends for good Follow ends
// with the error.
//
// # What the caller must do
//
// Close it. Values are made anew by each call: keep them if that is dear. Changes that
// come fast may be seen as one; what the view has seen is not skipped, so Follow takes
// memory for what its loop has not come to yet.
//
// # Goroutines
//
// A view has those of its cache, and one for each Follow. All methods may be called from
// any goroutine.
package cacheview
