package cacheview

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Options configure a view. The zero value is good for most.
type Options[T any] struct {
	// Codec converts data to values. It must neither keep nor change the data. Nil means
	// typed.JSON.
	Codec typed.Codec[T]
	// MaxBytes limits the memory of the nodes: see cache.Options.
	MaxBytes int64
}

// view is the common part of Node and Nodes.
type view[T any] struct {
	cache *cache.Cache
	codec typed.Codec[T]
}

// open opens a view, and waits until all existing nodes have been read.
func open[T any](ctx context.Context, c *client.Client, path string, depth int, o Options[T]) (view[T], error) {
	if o.Codec == nil {
		o.Codec = typed.JSON[T]{}
	}
	if path != "/" {
		if err := line.CheckPath(path); err != nil {
			return view[T]{}, fmt.Errorf("cacheview: %w", err)
		}
	}
	k, err := cache.Open(ctx, c, path, cache.Options{Depth: depth, MaxBytes: o.MaxBytes})
	if err != nil {
		return view[T]{}, err
	}
	if err := k.WaitReady(ctx); err != nil {
		k.Close()
		return view[T]{}, fmt.Errorf("read %s: %w", path, line.Lost(err))
	}
	return view[T]{k, o.Codec}, nil
}

// Path returns the path that the view was opened with.
func (v *view[T]) Path() string { return v.cache.Path() }

// Stale reports whether changes are missed because the connection is lost, and since when.
func (v *view[T]) Stale() (since time.Time, stale bool) { return v.cache.Stale() }

// Sync waits until the view has the changes that were committed before Sync was called.
func (v *view[T]) Sync(ctx context.Context) error { return closed(v.cache.Sync(ctx)) }

// Close ends the view. The last values can still be read. Close is idempotent; its error is
// nil.
func (v *view[T]) Close(context.Context) error {
	v.cache.Close()
	return nil
}

// value returns a node's value. If Exists is false, the node is to be left out.
func (v *view[T]) value(n cache.Node) (typed.Value[T], error) {
	t, err := v.codec.Decode(n.Data)
	if err != nil && len(n.Data) == 0 {
		return typed.Value[T]{}, nil
	}
	if err != nil {
		err = fmt.Errorf("decode %s: %w: %w", n.Path, typed.ErrData, err)
	}
	return typed.Value[T]{Value: t, Stat: n.Stat, Exists: true}, err
}

// each calls fn for each event. It returns nil when fn returns false, and otherwise the
// cause of ctx's end, recipes.ErrClosed, or what ended the cache.
func (v *view[T]) each(ctx context.Context, fn func(cache.Event) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for e := range v.cache.Events(ctx) {
		if e.Type == cache.Closed {
			return closed(e.Err)
		}
		if !fn(e) {
			return nil
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return recipes.ErrClosed
}

func closed(err error) error {
	if errors.Is(err, cache.ErrClosed) {
		return recipes.ErrClosed
	}
	return line.Lost(err)
}
