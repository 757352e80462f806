package cache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/zkd-project/zkd/client/typed"
)

// Values are the nodes of a cache whose data are values of a type. Each call decodes them again. A node
// without data, as parents often are, has no value if the codec can't decode that. Its methods may be called
// from any goroutine.
type Values[T any] struct {
	cache *Cache
	codec typed.Codec[T]
}

// ValuesOf returns the values of the nodes in k. The codec must neither keep nor change the data; nil
// means typed.JSON.
func ValuesOf[T any](k *Cache, codec typed.Codec[T]) Values[T] {
	if codec == nil {
		codec = typed.JSON[T]{}
	}
	return Values[T]{k, codec}
}

// Get returns the value of a node. An error means that the data is none: typed.ErrData.
func (v Values[T]) Get(path string) (typed.Value[T], error) {
	n, exists := v.cache.Get(path)
	if !exists {
		return typed.Value[T]{}, nil
	}
	return v.of(n)
}

// Below returns the values of the nodes below path, by their paths relative to it: those of children by
// their names. The error joins those of nodes whose data is no value, which are left out.
func (v Values[T]) Below(path string) (map[string]T, error) {
	all := make(map[string]T)
	var bad []error
	for n := range v.cache.Nodes(path) {
		if n.Path == path {
			continue
		}
		now, err := v.of(n)
		switch {
		case err != nil:
			bad = append(bad, err)
		case now.Exists:
			all[strings.TrimPrefix(strings.TrimPrefix(n.Path, path), "/")] = now.Value
		}
	}
	return all, errors.Join(bad...)
}

// Change is what a node became.
type Change[T any] struct {
	Path string
	Now  typed.Value[T] // the zero Value if the node is gone
}

// Follow yields the nodes that are in the cache, and then each change of data, until the loop or ctx ends. If the
// node at Cache.Path is not there when everything has been read, the first change says so. A node whose data is no value,
// or that can't be read, comes with an error, and the loop continues. Any other error is the last: that of ctx, or the
// reason why the cache has ended, such as ErrClosed. Changes wait in memory until the loop takes them.
func (v Values[T]) Follow(ctx context.Context) iter.Seq2[Change[T], error] {
	return func(yield func(Change[T], error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		root := false // it was yielded
		for e := range v.cache.Events(ctx) {
			if e.Type == Closed {
				yield(Change[T]{}, e.Err)
				return
			}
			c, err, any := v.change(&e, root)
			root = root || any && c.Path == v.cache.Path()
			if any && !yield(c, err) {
				return
			}
		}
		err := ErrClosed
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		yield(Change[T]{}, err)
	}
}

// change returns what an event says of a value, if it says something. root: that of the node at Cache.Path was said.
func (v Values[T]) change(e *Event, root bool) (_ Change[T], err error, any bool) {
	c := Change[T]{Path: e.Node.Path}
	switch {
	case e.Type == Added, e.DataChanged():
		c.Now, err = v.of(e.Node)
	case e.Type == Removed:
	case e.Type == Unreadable:
		err = fmt.Errorf("read %s: %w", e.Node.Path, e.Err)
	case e.Type == Ready && !root:
		c.Path = v.cache.Path()
	default:
		return c, nil, false
	}
	return c, err, true
}

func (v Values[T]) of(n Node) (typed.Value[T], error) {
	t, err := v.codec.Decode(n.Data)
	if err != nil && len(n.Data) == 0 {
		return typed.Value[T]{}, nil
	}
	if err != nil {
		err = fmt.Errorf("decode %s: %w: %w", n.Path, typed.ErrData, err)
	}
	return typed.Value[T]{Value: t, Stat: n.Stat, Exists: true}, err
}
