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

// OpenNode begins to follow the node at path, and waits until it is known. It need not
// exist. The Node must be closed.
func OpenNode[T any](ctx context.Context, c *client.Client, path string, o Options[T]) (*Node[T], error) {
	v, err := open(ctx, c, path, cache.NodeOnly, o)
	if err != nil {
		return nil, err
	}
	return &Node[T]{v}, nil
}

// Current returns the node's value; Exists is false if there is no node, or one without
// data that the codec can't read, or one that the client may not read, which only Follow
// tells apart. The error wraps typed.ErrData if the data is not a T.
func (n *Node[T]) Current() (typed.Value[T], error) {
	node, exists := n.cache.Get(n.Path())
	if !exists {
		return typed.Value[T]{}, nil
	}
	return n.value(node)
}

// Follow returns what Current does, and then again after each change of the data, and
// when the node comes or goes. Data that is not a T comes with a typed.ErrData, and a
// node that may not be read with a client.ErrNoAuth; more follows. The last is an error:
// the cause of ctx's end, recipes.ErrClosed, or what ended the session.
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
