package config

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/feed"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// ErrInvalid is that Validate has refused a value.
var ErrInvalid = errors.New("invalid configuration")

// Options are what a Config can be told. The zero value is good for most.
type Options[T any] struct {
	// Codec makes data of values and back. Nil is typed.JSON.
	Codec typed.Codec[T]
	// Validate returns what is wrong with a value. Nil lets all pass.
	Validate func(T) error
	// Default is the value while there is no node. It is not written. If it is nil the
	// last value stays when the node is deleted, and Open waits for the first one.
	Default *T
	// ACL is that of new nodes; nil is client.OpenACL.
	ACL []client.ACL
}

// decode returns the value that data stand for, if it is a good one.
func (o *Options[T]) decode(path string, data []byte) (T, error) {
	v, err := o.Codec.Decode(data)
	if err != nil {
		return v, fmt.Errorf("decode %s: %w: %w", path, typed.ErrData, err)
	}
	return v, o.check(path, v)
}

func (o *Options[T]) check(path string, v T) error {
	if o.Validate == nil {
		return nil
	}
	if err := o.Validate(v); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrInvalid, err)
	}
	return nil
}

func (o *Options[T]) complete() {
	if o.Codec == nil {
		o.Codec = typed.JSON[T]{}
	}
}

// Config is a configuration that is kept in memory. All methods may be called from any
// goroutine.
type Config[T any] struct {
	c     *client.Client
	path  string
	o     Options[T]
	cache *cache.Cache
	feed  feed.Feed[typed.Value[T]]
	run   sync.WaitGroup

	mu     sync.Mutex // taken to bring the feed up to the cache
	seen   *cache.Node
	denied error // why the node can't be read; nil if it is not known to be so
}

// Open begins to follow the node at path, and waits until there is a good value, or
// Options.Default is known to hold. The node need not exist. If ctx ends before, the
// error says what was wrong. The Config must be closed.
func Open[T any](ctx context.Context, c *client.Client, path string, o Options[T]) (*Config[T], error) {
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	o.complete()
	if o.Default != nil {
		if err := o.check("Options.Default", *o.Default); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
	}
	k, err := cache.Open(ctx, c, path, cache.Options{Depth: cache.NodeOnly})
	if err != nil {
		return nil, err
	}
	g := &Config[T]{c: c.Steady(), path: path, o: o, cache: k}
	events := k.Events(context.Background()) // closed behind the last one, or by the cache's Close
	g.run.Go(func() { g.follow(events) })
	if err := g.feed.Wait(ctx); err != nil {
		problem := g.feed.Now().Err
		g.Close(ctx)
		if problem != nil && !errors.Is(err, problem) {
			err = fmt.Errorf("%w (%w)", err, problem)
		}
		return nil, fmt.Errorf("wait for a configuration at %s: %w", path, err)
	}
	return g, nil
}

// follow brings the feed up to the cache whenever that changes.
func (g *Config[T]) follow(events <-chan cache.Event) {
	for e := range events {
		switch e.Type {
		case cache.Ready, cache.Changed, cache.Removed, cache.Added:
			g.catchUp()
		case cache.Unreadable:
			g.deny(fmt.Errorf("read %s: %w", g.path, e.Err))
		case cache.Closed:
			g.feed.End(fmt.Errorf("follow %s: %w", g.path, line.Lost(e.Err)))
		}
	}
}

// catchUp puts what the cache has into the feed, unless it is there.
func (g *Config[T]) catchUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	node, exists := g.cache.Get(g.path)
	switch was := g.seen; {
	case !exists && !ready(g.cache):
		return // it may exist: it is not known yet
	case was != nil && was.Stat.Czxid == node.Stat.Czxid && was.Stat.Mzxid == node.Stat.Mzxid:
		return
	}
	g.seen = &node
	if !exists {
		g.missingLocked()
		return
	}
	g.denied = nil
	v, err := g.o.decode(g.path, node.Data)
	if err != nil {
		g.feed.Report(err)
		return
	}
	g.feed.Put(typed.Value[T]{Value: v, Stat: node.Stat, Exists: true})
}

// deny notes that the node can't be read.
func (g *Config[T]) deny(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.denied = why
	g.missingLocked()
}

// missingLocked is called while there is nothing to read. If that is because it is
// forbidden there may well be a value: what was there stays.
func (g *Config[T]) missingLocked() {
	problem := g.denied
	if g.o.Default != nil && (problem == nil || !g.feed.Now().Valid) {
		g.feed.Put(typed.Value[T]{Value: *g.o.Default})
	} else if problem == nil {
		problem = fmt.Errorf("read %s: %w", g.path, client.ErrNoNode)
	}
	if problem != nil {
		g.feed.Report(problem)
	}
}

func ready(k *cache.Cache) bool {
	select {
	case <-k.Ready():
		return true
	default:
		return false
	}
}

// Path returns the node's path.
func (g *Config[T]) Path() string { return g.path }

// Get returns the newest good value, without asking the servers. It is shared: it must
// not be changed.
func (g *Config[T]) Get() T { return g.feed.Now().Value.Value }

// Current returns Get's value with the Stat of the node that had it. Exists is false if
// it is the default.
func (g *Config[T]) Current() typed.Value[T] { return g.feed.Now().Value }

// Problem returns why Get's value is not the newest that there is: a typed.ErrData, an
// ErrInvalid, a client.ErrNoNode or ErrNoAuth, or why the Config has ended. It is nil
// if it is the newest, as far as is known: see Stale.
func (g *Config[T]) Problem() error { return g.feed.Now().Err }

// Stale reports whether changes can't be heard of at the moment, as the connection is
// lost, and since when.
func (g *Config[T]) Stale() (since time.Time, stale bool) { return g.cache.Stale() }

// Sync waits until Get has what was set before Sync was called, if that is good.
func (g *Config[T]) Sync(ctx context.Context) error {
	if err := g.cache.Sync(ctx); err != nil {
		return g.closed(err)
	}
	g.catchUp()
	return nil
}

func (g *Config[T]) closed(err error) error {
	if errors.Is(err, cache.ErrClosed) {
		return recipes.ErrClosed
	}
	return err
}

// Follow returns the value, and then each new one, skipping those that are not the newest
// any more. What is not good comes as an error, with the last good value, and is followed
// by more. The last is an error: ctx's cause, recipes.ErrClosed, or what ended the
// session.
func (g *Config[T]) Follow(ctx context.Context) iter.Seq2[typed.Value[T], error] {
	return g.feed.Follow(ctx)
}

// Set is the function Set with the Config's node and options. It does not wait until Get
// has the value: see Sync.
func (g *Config[T]) Set(ctx context.Context, v T, version int32) (int32, error) {
	if g.feed.Now().Over {
		return 0, g.Problem()
	}
	return Set(ctx, g.c, g.path, g.o, v, version)
}

// Close ends it. What it has can still be read. It is idempotent.
func (g *Config[T]) Close(context.Context) error {
	g.feed.End(recipes.ErrClosed)
	g.cache.Close()
	g.run.Wait()
	return nil
}
