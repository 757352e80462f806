// Package tree works on a node and all nodes below it.
//
//	for e, err := range tree.Walk(ctx, c, "/app", tree.WalkOptions{}) { … }
//	n, err := tree.Delete(ctx, c, "/app", tree.DeleteOptions{})
//
// Both keep many requests under way, and repeat those that a broken connection took
// along as the client's policy says. They run in the caller's goroutine.
package tree
