package subtree

import (
	"context"
	"errors"
	"iter"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/internal/treediff"
)

// ReadOptions determine what Live reads.
type ReadOptions struct {
	Data, ACL bool
	// Depth is how far below the root to go, if Limit is set.
	Depth int
	Limit bool
	// Window is the number of nodes whose requests are under way at most; 0 means 64.
	Window int
	// SkipSystem omits /zookeeper, which belongs to the servers, unless root is in it.
	SkipSystem bool
}

// Live returns the nodes of the subtree at root, in tree order, each as it is when it is
// read: not a snapshot. Deleted nodes are omitted, and lost connections are waited for.
//
// An error of one node, such as ErrNoAuth, comes with a Node that only has its path, and the
// next node follows. Any other error has no path and ends the stream, such as ErrNoNode,
// which means that root does not exist.
func Live(ctx context.Context, c *client.Client, root string, o ReadOptions) iter.Seq2[Node, error] {
	if o.Window <= 0 {
		o.Window = 64
	}
	nodes := walk(ctx, c, root, o)
	if o.ACL {
		nodes = withACLs(ctx, c, root, o.Window, nodes)
	}
	return nodes
}

// walk is Live without ACLs.
func walk(ctx context.Context, c *client.Client, root string, o ReadOptions) iter.Seq2[Node, error] {
	wo := tree.WalkOptions{Data: o.Data, Window: o.Window}
	if o.Limit {
		wo.Depth = max(o.Depth, 1)
	}
	skip := o.SkipSystem && skipsSystem(c, root)
	return func(yield func(Node, error) bool) {
		for e, err := range tree.Walk(ctx, c, root, wo) {
			if o.Limit && e.Depth > o.Depth {
				return // the first child, where only the root was asked for
			}
			if skip && inSystem(e.Path) {
				continue
			}
			n := Node{Path: relative(e.Path, root), Data: e.Data, Stat: e.Stat}
			if !yield(n, err) {
				return
			}
		}
	}
}

// skipsSystem reports whether the nodes of the servers are in the subtree at root, and not asked for by it.
func skipsSystem(c *client.Client, root string) bool { return root == "/" && c.Root() == "" }

// inSystem reports whether a path belongs to the servers.
func inSystem(path string) bool { return path == "/zookeeper" || treediff.Below(path, "/zookeeper") }

// relative is the inverse of Join. An empty path stays empty.
func relative(path, root string) string {
	switch {
	case root == "/" || path == "":
		return path
	case path == root:
		return "/"
	}
	return path[len(root):]
}

// withACLs adds the ACLs to a stream of nodes. It requests those of later nodes ahead.
func withACLs(ctx context.Context, c *client.Client, root string, window int, nodes iter.Seq2[Node, error]) iter.Seq2[Node, error] {
	type asked struct {
		Node
		err error
		acl *client.Future[client.Access]
	}
	return func(yield func(Node, error) bool) {
		async := c.Async()
		var ahead []asked
		flush := func(keep int) bool {
			for len(ahead) > keep {
				a := ahead[0]
				ahead = ahead[1:]
				if a.acl != nil {
					a.ACL, a.err = await(ctx, c, treediff.Join(root, a.Path), a.acl)
				}
				if errors.Is(a.err, client.ErrNoNode) && a.acl != nil {
					continue // it was deleted after it was read
				}
				if !yield(a.Node, a.err) {
					return false
				}
			}
			return true
		}
		for n, err := range nodes {
			a := asked{Node: n, err: err}
			if err == nil {
				a.acl = async.GetACL(treediff.Join(root, n.Path))
			}
			ahead = append(ahead, a)
			if !flush(window - 1) {
				return
			}
		}
		flush(0)
	}
}

// await waits for an ACL, and repeats the request when the connection was lost.
func await(ctx context.Context, c *client.Client, path string, f *client.Future[client.Access]) ([]client.ACL, error) {
	access, err := f.Wait(ctx)
	for errors.Is(err, client.ErrConnectionLoss) && ctx.Err() == nil {
		access, err = c.GetACL(ctx, path)
	}
	return access.ACL, err
}
