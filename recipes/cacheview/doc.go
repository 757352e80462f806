// Package cacheview shows the nodes of a client/cache as typed values: one node, the
// children of a node, or a whole tree.
//
//	workers, err := cacheview.OpenChildren(ctx, c, "/app/workers", cacheview.Options[Worker]{})
//	if err != nil {
//		return err
//	}
//	defer workers.Close(ctx)
//	all, err := workers.Current() // map[string]Worker, without a request
//	for change, err := range workers.Follow(ctx) { ... }
//
// Node corresponds to NodeCache in Curator and DataWatch in kazoo; Nodes to
// PathChildrenCache and TreeCache, and to ChildrenWatch. Use client/cache itself for what
// the views do not show, such as all Stats, and recipes/config for configuration with
// defaults and validation.
//
// # Layout on the tree
//
// Any. Nothing is written. The codec reads the nodes' data. A node without data, as parents
// often are, is left out if the codec cannot read that.
//
// # What it guarantees
//
// The guarantees are those of client/cache: no change is missed and no value goes back in
// time when the connection breaks, when a leader fails and, if the client has
// Options.RenewSession, when the session ends. While the connection is lost or the process
// is stopped, the values become old: see Stale and Sync. If the session ends for good,
// Follow ends with the error.
//
// # What the caller must do
//
// Close the view. Each call decodes the values again: keep them if decoding is expensive.
// Several quick changes may appear as one. Follow skips no change that the view has seen,
// so it needs memory for the changes that its loop has not received yet.
//
// # Goroutines
//
// A view has those of its cache, and one for each Follow. All methods may be called from
// any goroutine.
package cacheview
