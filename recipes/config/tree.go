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

// ErrNotReady is that there are keys of which nobody has said that they are whole: a
// change is under way, or whoever made it has died. Once the keys are as they should be,
// create the node "ready" below the Tree's.
var ErrNotReady = errors.New("configuration is being changed")

// readyName is the node that says that what is there is whole.
const readyName = "ready"

// TreeOptions are what a Tree can be told. The zero value is good for most.
type TreeOptions struct {
	// Validate returns what is wrong with the keys and their values. Nil lets all
	// pass. It must not change them.
	Validate func(map[string]string) error
	// Default is what holds while there is no directory. It is not written. If it is
	// nil the last that was there stays, and OpenTree waits for the first.
	Default map[string]string
	// ACL is that of new nodes; nil is client.OpenACL.
	ACL []client.ACL
}

// Snapshot is the keys at one moment.
type Snapshot struct {
	Keys map[string]string
	// Version is that of the node "ready", and Zxid of the change that made it so. Both
	// are -1 for the default.
	Version  int32
	Zxid     client.Zxid
	czxid    client.Zxid      // of the node "ready"
	versions map[string]int32 // of the keys' nodes; never changed
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
	turn  chan struct{} // holds one token: who has it brings the feed up to the servers
}

// OpenTree begins to follow the directory at path, and waits until there are good keys,
// or Options.Default is known to hold. If ctx ends before, the error says what was wrong.
// The Tree must be closed.
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
	events := k.Events(context.Background()) // closed behind the last one, or by the cache's Close
	t.run.Go(func() { t.follow(events) })
	if err := t.feed.Wait(ctx); err != nil {
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

// follow reads the keys whenever the node "ready" says that they have changed.
func (t *Tree) follow(events <-chan cache.Event) {
	for e := range events {
		switch e.Type {
		case cache.Ready, cache.Changed, cache.Added, cache.Removed, cache.Fresh:
			if !t.current() {
				_ = t.catchUp(t.ctx) // it has reported why not
			}
		case cache.Unreadable:
			t.feed.Report(fmt.Errorf("read %s: %w", e.Node.Path, e.Err))
		case cache.Closed:
			t.feed.End(fmt.Errorf("follow %s: %w", t.path, line.Lost(e.Err)))
		}
	}
}

// current reports whether the feed has what the node "ready" stands for.
func (t *Tree) current() bool {
	now := t.feed.Now()
	node, exists := t.cache.Get(t.path + "/" + readyName)
	return exists && now.Valid && now.Err == nil && now.Value.Zxid == node.Stat.Mzxid
}

// catchUp puts into the feed what is on the servers.
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

// read reads the keys, which must not be older than from that zxid on, and good.
func (t *Tree) read(ctx context.Context, from client.Zxid) (Snapshot, error) {
	now, err := read(ctx, t.c, t.path)
	if err == nil && now.Zxid < from { // a new session has come to a server that lags behind
		if err = t.c.Sync(ctx, t.path); err == nil {
			now, err = read(ctx, t.c, t.path)
		}
	}
	if err != nil {
		return now, err
	}
	return now, t.o.check(t.path, now.Keys)
}

// Path returns the directory's path.
func (t *Tree) Path() string { return t.path }

// Get returns the newest good keys, as they were at one moment, without asking the
// servers. The map is the caller's.
func (t *Tree) Get() Snapshot { return t.feed.Now().Value.clone() }

// Problem returns why Get's keys are not the newest that there are: ErrNotReady, an
// ErrInvalid, a client.ErrNoNode or ErrNoAuth, or why the Tree has ended. It is nil if
// they are, as far as is known: see Stale.
func (t *Tree) Problem() error { return t.feed.Now().Err }

// Stale reports whether changes can't be heard of at the moment, as the connection is
// lost, and since when.
func (t *Tree) Stale() (since time.Time, stale bool) { return t.cache.Stale() }

// Sync waits until Get has what was whole before Sync was called. If that is not
// good it returns why.
func (t *Tree) Sync(ctx context.Context) error {
	if t.ctx.Err() != nil {
		return recipes.ErrClosed
	}
	if err := t.c.Sync(ctx, t.path); err != nil {
		return err
	}
	return t.catchUp(ctx)
}

// Follow returns the keys, and then those after each change, skipping what is not the
// newest any more. What is not good comes as an error, with the last good keys, and is
// followed by more. The last is an error: ctx's cause, recipes.ErrClosed, or what ended
// the session.
func (t *Tree) Follow(ctx context.Context) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		for now, err := range t.feed.Follow(ctx) {
			if !yield(now.clone(), err) {
				return
			}
		}
	}
}

// Update is the function UpdateTree with the Tree's directory and options. It does not
// wait until Get has the change: see Sync.
func (t *Tree) Update(ctx context.Context, fn func(keys map[string]string) error) (Snapshot, error) {
	if t.ctx.Err() != nil {
		return Snapshot{}, recipes.ErrClosed
	}
	return UpdateTree(ctx, t.c, t.path, t.o, fn)
}

// Close ends it. What it has can still be read. It is idempotent.
func (t *Tree) Close(context.Context) error {
	t.feed.End(recipes.ErrClosed)
	t.close()
	t.cache.Close()
	t.run.Wait()
	return nil
}
