package config

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/feed"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// ErrInvalid means that Validate refused a value.
var ErrInvalid = errors.New("invalid configuration")

// Options configure a Config. The zero value is good for most.
type Options[T any] struct {
	// Codec converts between values and data. Nil means typed.JSON.
	Codec typed.Codec[T]
	// Validate returns what is wrong with a value. Nil accepts every value.
	Validate func(T) error
	// Default is the value while there is no node. It is not written. If it is nil, Open
	// waits for the first value, and says so in the log; and the last value stays when the
	// node is deleted.
	Default *T
	// ACL is the access list of new nodes; nil means client.OpenACL.
	ACL []client.ACL
	// Logger logs, as a warning, why Open waits. Nil means slog.Default().
	Logger client.Logger
}

// decode returns the value of data, or an error if it is not good.
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

	mu     sync.Mutex // held while the feed is updated from the cache
	seen   *cache.Node
	denied error // why the node can't be read, as far as is known
}

// Open begins to follow the node at path. It waits until there is a good value, or until it
// is known that there is no node and Options.Default applies. If ctx ends before, the error
// contains the last problem. The Config must be closed.
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
	events := k.Events(context.Background()) // closed after the last one, or by the cache's Close
	g.run.Go(func() { g.follow(events) })
	if err := first(ctx, &g.feed, o.Logger, path); err != nil {
		problem := g.feed.Now().Err
		g.Close(ctx)
		if problem != nil && !errors.Is(err, problem) {
			err = fmt.Errorf("%w (%w)", err, problem)
		}
		return nil, fmt.Errorf("wait for a configuration at %s: %w", path, err)
	}
	return g, nil
}

// first waits for the first value, and logs why there is none.
func first[T any](ctx context.Context, f *feed.Feed[T], log client.Logger, path string) error {
	if log == nil {
		log = slog.Default()
	}
	for _, err := range f.Follow(ctx) {
		switch now := f.Now(); {
		case now.Valid:
			return nil
		case now.Over:
			return now.Err
		case ctx.Err() == nil:
			log.Log(ctx, slog.LevelWarn, "waiting for a configuration", "path", path, "err", err)
		}
	}
	return context.Cause(ctx)
}

// follow updates the feed whenever the cache changes.
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

// catchUp puts the cache's node into the feed, unless it is there already.
func (g *Config[T]) catchUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	node, exists := g.cache.Get(g.path)
	switch was := g.seen; {
	case !exists && !ready(g.cache):
		return // whether it exists is not known yet
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

// deny records that the node can't be read.
func (g *Config[T]) deny(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.denied = why
	g.missingLocked()
}

// missingLocked is called when there is nothing to read. If reading is forbidden, there may
// be a value, so the last one stays.
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

// Get returns the newest good value. It sends no request. The value is shared, so the
// caller must not change it.
func (g *Config[T]) Get() T { return g.feed.Now().Value.Value }

// Current returns Get's value with the Stat of its node. Exists is false if the value is
// the default.
func (g *Config[T]) Current() typed.Value[T] { return g.feed.Now().Value }

// Problem returns why Get's value is not the newest one: an error that wraps typed.ErrData,
// ErrInvalid, client.ErrNoNode or client.ErrNoAuth, or the reason why the Config has ended.
// It is nil if the value is the newest one, as far as is known: see Stale.
func (g *Config[T]) Problem() error { return g.feed.Now().Err }

// Stale reports whether changes are missed because the connection is lost, and since when.
func (g *Config[T]) Stale() (since time.Time, stale bool) { return g.cache.Stale() }

// Sync waits until Get returns what was set before Sync was called, or a newer value. A
// value that is not good does not count.
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

// Follow returns the value, and then the newest value after each change. A value that is
// not good is returned as an error with the last good value, and more follows. The last
// item is an error: the cause of ctx's end, recipes.ErrClosed, or what ended the session. So
// look at ctx before the error.
func (g *Config[T]) Follow(ctx context.Context) iter.Seq2[typed.Value[T], error] {
	return g.feed.Follow(ctx)
}

// Set calls the function Set with the Config's node and options. It does not wait until Get
// returns the value: see Sync.
func (g *Config[T]) Set(ctx context.Context, v T, version int32) (int32, error) {
	if g.feed.Now().Over {
		return 0, g.Problem()
	}
	return Set(ctx, g.c, g.path, g.o, v, version)
}

// Close ends the Config. Get continues to return the last value. Close is idempotent.
func (g *Config[T]) Close(context.Context) error {
	g.feed.End(recipes.ErrClosed)
	g.cache.Close()
	g.run.Wait()
	return nil
}
