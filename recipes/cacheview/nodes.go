package cacheview

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Nodes is a view of the nodes below a root node. Their names are paths relative to the
// root, such as "a", or in a tree "a/b".
type Nodes[T any] struct{ view[T] }

// OpenChildren begins to follow the children of the node at path, and waits until they are
// known. The node need not exist. The Nodes must be closed.
func OpenChildren[T any](ctx context.Context, c *client.Client, path string, o Options[T]) (*Nodes[T], error) {
	return openNodes(ctx, c, path, cache.ChildrenOnly, o)
}

// OpenTree is OpenChildren for all nodes below path, at any depth.
func OpenTree[T any](ctx context.Context, c *client.Client, path string, o Options[T]) (*Nodes[T], error) {
	return openNodes(ctx, c, path, cache.Whole, o)
}

func openNodes[T any](ctx context.Context, c *client.Client, path string, depth int, o Options[T]) (*Nodes[T], error) {
	v, err := open(ctx, c, path, depth, o)
	if err != nil {
		return nil, err
	}
	return &Nodes[T]{v}, nil
}

// name returns a node's name, which is "" for the root.
func (n *Nodes[T]) name(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, n.Path()), "/")
}

// Current returns all values by name. Nodes whose data is not a T are left out; the error,
// which wraps typed.ErrData, names them.
func (n *Nodes[T]) Current() (map[string]T, error) {
	all := make(map[string]T)
	var bad []error
	for node := range n.cache.Nodes(n.Path()) {
		name := n.name(node.Path)
		if name == "" {
			continue
		}
		v, err := n.value(node)
		switch {
		case err != nil:
			bad = append(bad, err)
		case v.Exists:
			all[name] = v.Value
		}
	}
	return all, errors.Join(bad...)
}

// Names returns the names of all nodes, sorted, including those without a value.
func (n *Nodes[T]) Names() []string {
	var names []string
	for node := range n.cache.Nodes(n.Path()) {
		if name := n.name(node.Path); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Get returns a node's value: see Node.Current.
func (n *Nodes[T]) Get(name string) (typed.Value[T], error) {
	node, exists := n.cache.Get(line.Join(n.Path(), name))
	if !exists || name == "" {
		return typed.Value[T]{}, nil
	}
	return n.value(node)
}

// Change is the change of a node. If Now.Exists is false, the node was deleted.
type Change[T any] struct {
	Name string
	Now  typed.Value[T]
}

// Follow returns the existing nodes, and then each change: a node that is created or
// deleted, or whose data changes. The error wraps typed.ErrData if the data is not a T, and
// client.ErrNoAuth if the client is not allowed to read the node; more follows. The last
// item is another error: the cause of ctx's end, recipes.ErrClosed, or what ended the
// session.
func (n *Nodes[T]) Follow(ctx context.Context) iter.Seq2[Change[T], error] {
	return func(yield func(Change[T], error) bool) {
		end := n.each(ctx, func(e cache.Event) bool {
			c := Change[T]{Name: n.name(e.Node.Path)}
			switch {
			case c.Name == "": // the event is about the root, or about no node
				return true
			case e.Type == cache.Added, e.DataChanged():
				var err error
				c.Now, err = n.value(e.Node)
				return yield(c, err)
			case e.Type == cache.Removed:
				return yield(c, nil)
			case e.Type == cache.Unreadable:
				return yield(c, fmt.Errorf("read %s: %w", e.Node.Path, e.Err))
			}
			return true
		})
		if end != nil {
			yield(Change[T]{}, end)
		}
	}
}
