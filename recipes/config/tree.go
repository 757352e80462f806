package config

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/feed"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// ErrNotReady means that there are keys, but no node "ready": another program is changing
// the keys, or has died during a change. Once the keys are as they should be, create the
// node "ready" beside them.
var ErrNotReady = errors.New("configuration is being changed")

// readyName is the name of the node that exists while the keys are complete.
const readyName = "ready"

// TreeOptions configure a Tree. The zero value is good for most.
type TreeOptions struct {
	// Validate returns what is wrong with the keys and their values. Nil accepts all. It
	// must not change them.
	Validate func(map[string]string) error
	// Default is the keys while there is no directory. It is not written. If it is nil,
	// OpenTree waits for the first keys, and the last keys stay when they are deleted.
	Default map[string]string
	// ACL is the access list of new nodes; nil means client.OpenACL.
	ACL []client.ACL
	// Logger logs, as a warning, why OpenTree waits. Nil means slog.Default().
	Logger client.Logger
}

// Snapshot is the keys and their values at one moment.
type Snapshot struct {
	Keys map[string]string
	// Version is the version of the node "ready", and Zxid the change that set it. Both
	// are -1 for the default.
	Version  int32
	Zxid     client.Zxid
	czxid    client.Zxid      // of the node "ready"
	versions map[string]int32 // of the keys' nodes; the map is never changed
}

func (s Snapshot) clone() Snapshot {
	s.Keys = maps.Clone(s.Keys)
	return s
}

// Tree is a directory of keys that is kept in memory. All methods may be called from any
// goroutine.
type Tree struct {
	c     *client.Client
	path  string
	o     TreeOptions
	cache *cache.Cache // of the node "ready"
	feed  feed.Feed[Snapshot]
	run   sync.WaitGroup
	// ctx ends with the Tree.
	ctx   context.Context
	close context.CancelFunc
	turn  chan struct{} // holds one token, which catchUp takes: a mutex that a context can interrupt
}

// OpenTree begins to follow the directory at path. It waits until there are good keys, or
// until it is known that there is no directory and TreeOptions.Default applies. If ctx ends
// before, the error contains the last problem. The Tree must be closed.
func OpenTree(ctx context.Context, c *client.Client, path string, o TreeOptions) (*Tree, error) {
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if o.Default != nil {
		if err := o.check("TreeOptions.Default", o.Default); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
	}
	k, err := cache.Open(ctx, c, path+"/"+readyName, cache.Options{Depth: cache.NodeOnly})
	if err != nil {
		return nil, err
	}
	t := &Tree{c: c.Steady(), path: path, o: o, cache: k, turn: make(chan struct{}, 1)}
	t.turn <- struct{}{}
	t.ctx, t.close = context.WithCancel(context.Background())
	events := k.Events(context.Background()) // closed after the last one, or by the cache's Close
	t.run.Go(func() { t.follow(events) })
	if err := first(ctx, &t.feed, o.Logger, path); err != nil {
		problem := t.feed.Now().Err
		t.Close(ctx)
		if problem != nil && !errors.Is(err, problem) {
			err = fmt.Errorf("%w (%w)", err, problem)
		}
		return nil, fmt.Errorf("wait for a configuration at %s: %w", path, err)
	}
	return t, nil
}

func (o *TreeOptions) check(path string, keys map[string]string) error {
	if o.Validate == nil {
		return nil
	}
	if err := o.Validate(keys); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrInvalid, err)
	}
	return nil
}

// follow reads the keys whenever the node "ready" changes.
func (t *Tree) follow(events <-chan cache.Event) {
	for e := range events {
		switch e.Type {
		case cache.Ready, cache.Changed, cache.Added, cache.Removed, cache.Fresh:
			if !t.current() {
				_ = t.catchUp(t.ctx) // which reports errors to the feed
			}
		case cache.Unreadable:
			t.feed.Report(fmt.Errorf("read %s: %w", e.Node.Path, e.Err))
		case cache.Closed:
			t.feed.End(fmt.Errorf("follow %s: %w", t.path, line.Lost(e.Err)))
		}
	}
}

// current reports whether the feed has the keys of the newest change of "ready".
func (t *Tree) current() bool {
	now := t.feed.Now()
	node, exists := t.cache.Get(t.path + "/" + readyName)
	return exists && now.Valid && now.Err == nil && now.Value.Zxid == node.Stat.Mzxid
}

// catchUp reads the keys from the servers and puts them into the feed.
func (t *Tree) catchUp(ctx context.Context) error {
	select {
	case <-t.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { t.turn <- struct{}{} }()
	was := t.feed.Now()
	now, err := t.read(ctx, was.Value.Zxid)
	switch {
	case t.ctx.Err() != nil:
		return recipes.ErrClosed
	case ctx.Err() != nil:
		return err
	case err == nil && was.Valid && was.Err == nil && was.Value.Zxid == now.Zxid:
	case err == nil:
		t.feed.Put(now)
	case errors.Is(err, client.ErrNoNode) && t.o.Default != nil:
		if !was.Valid || was.Err != nil || was.Value.Version >= 0 {
			t.feed.Put(Snapshot{Keys: maps.Clone(t.o.Default), Version: -1, Zxid: -1})
		}
		return nil
	default:
		t.feed.Report(err)
	}
	return err
}

// read reads and checks the keys. They are not older than those of the zxid atLeast.
func (t *Tree) read(ctx context.Context, atLeast client.Zxid) (Snapshot, error) {
	now, err := read(ctx, t.c, t.path)
	if err == nil && now.Zxid < atLeast { // a new session is on a server that lags behind
		if err = t.c.Sync(ctx, t.path); err == nil {
			now, err = read(ctx, t.c, t.path)
		}
	}
	if err != nil {
		return now, err
	}
	return now, t.o.check(t.path, now.Keys)
}

// Get returns the newest good keys, as they were at one moment. It sends no request. The
// caller may change the map.
func (t *Tree) Get() Snapshot { return t.feed.Now().Value.clone() }

// Problem returns why Get's keys are not the newest ones: an error that wraps ErrNotReady,
// ErrInvalid, client.ErrNoNode or client.ErrNoAuth, or the reason why the Tree has ended.
// It is nil if they are the newest, as far as is known: see Stale.
func (t *Tree) Problem() error { return t.feed.Now().Err }

// Stale reports whether changes are missed because the connection is lost, and since when.
func (t *Tree) Stale() (since time.Time, stale bool) { return t.cache.Stale() }

// Sync waits until Get returns the changes that were complete before Sync was called. If
// the keys are not good, it returns the reason.
func (t *Tree) Sync(ctx context.Context) error {
	if t.ctx.Err() != nil {
		return recipes.ErrClosed
	}
	if err := t.c.Sync(ctx, t.path); err != nil {
		return err
	}
	return t.catchUp(ctx)
}

// Follow returns the keys, and then the newest keys after each change. Keys that are not
// good are returned as an error with the last good keys, and more follows. The last item is
// an error: the cause of ctx's end, recipes.ErrClosed, or what ended the session.
func (t *Tree) Follow(ctx context.Context) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		for now, err := range t.feed.Follow(ctx) {
			if !yield(now.clone(), err) {
				return
			}
		}
	}
}

// Update calls UpdateTree with the Tree's directory and options. It does not wait until Get
// returns the change: see Sync.
func (t *Tree) Update(ctx context.Context, fn func(keys map[string]string) error) (Snapshot, error) {
	if t.ctx.Err() != nil {
		return Snapshot{}, recipes.ErrClosed
	}
	return UpdateTree(ctx, t.c, t.path, t.o, fn)
}

// Close ends the Tree. Get continues to return the last keys. Close is idempotent.
func (t *Tree) Close(context.Context) error {
	t.feed.End(recipes.ErrClosed)
	t.close()
	t.cache.Close()
	t.run.Wait()
	return nil
}
