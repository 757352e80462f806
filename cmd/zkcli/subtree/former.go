package subtree

import (
	"context"
	"errors"
	"iter"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/tree"
)

// Former returns the nodes of the subtree at root as they were at a moment, with data and ACLs, in tree order. There are none if there was
// no root. Errors are those of Live.
func Former(ctx context.Context, c *client.Client, root string, at client.Moment, begun func(client.PastPage)) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		for e, err := range tree.Former(ctx, c, root, tree.FormerOptions{At: at, Below: true, Data: true, Begun: begun}) {
			if !yield(Node{Path: relative(e.Path, root), Data: e.Data, ACL: e.ACL, Stat: e.Stat}, err) {
				return
			}
		}
	}
}

// Hiding returns the nodes of Live or Former with those hidden that may not be read.
func Hiding(nodes iter.Seq2[Node, error]) iter.Seq2[Node, error] {
	return func(yield func(Node, error) bool) {
		for n, err := range nodes {
			if n.Path != "" && errors.Is(err, client.ErrNoAuth) {
				n, err = Node{Path: n.Path, Hidden: true}, nil
			}
			if !yield(n, err) {
				return
			}
		}
	}
}
