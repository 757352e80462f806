package cacheview

import (
	"context"
	"fmt"
	"iter"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/client/typed"
)

// Node is a view of one node.
type Node[T any] struct{ view[T] }

// OpenNode begins to follow the node at path, and waits until its state is known. The node
// need not exist. The Node must be closed.
func OpenNode[T any](ctx context.Context, c *client.Client, path string, o Options[T]) (*Node[T], error) {
	v, err := open(ctx, c, path, cache.NodeOnly, o)
	if err != nil {
		return nil, err
	}
	return &Node[T]{v}, nil
}

// Current returns the node's value. Exists is false if there is no node, if it has no data
// and the codec cannot read that, or if the client is not allowed to read it; only Follow
// distinguishes the last case. The error wraps typed.ErrData if the data is not a T.
func (n *Node[T]) Current() (typed.Value[T], error) {
	node, exists := n.cache.Get(n.Path())
	if !exists {
		return typed.Value[T]{}, nil
	}
	return n.value(node)
}

// Follow returns the result of Current, and returns it again after each change of the data,
// and when the node is created or deleted. The error wraps typed.ErrData if the data is not
// a T, and client.ErrNoAuth if the client is not allowed to read the node; more follows. The
// last item is another error: the cause of ctx's end, recipes.ErrClosed, or what ended the
// session.
func (n *Node[T]) Follow(ctx context.Context) iter.Seq2[typed.Value[T], error] {
	return func(yield func(typed.Value[T], error) bool) {
		began := false
		end := n.each(ctx, func(e cache.Event) bool {
			none := typed.Value[T]{}
			switch {
			case e.Type == cache.Added, e.DataChanged():
				began = true
				return yield(n.value(e.Node))
			case e.Type == cache.Removed, e.Type == cache.Ready && !began:
				began = true
				return yield(none, nil)
			case e.Type == cache.Unreadable:
				began = true
				return yield(none, fmt.Errorf("read %s: %w", e.Node.Path, e.Err))
			}
			return true
		})
		if end != nil {
			yield(typed.Value[T]{}, end)
		}
	}
}
