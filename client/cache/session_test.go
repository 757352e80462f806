package cache

import (
	"context"
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// TestStale follows a cache through the loss of its connection, and of its
// session. What changes meanwhile comes as differences, between Stale and Fresh.
func TestStale(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		w := newWorld(t, addresses(t))
		for _, path := range []string{"", "/same", "/changed", "/deleted", "/deleted/below", "/recreated", "/recreated/below"} {
			w.create(path, "old")
		}
		c := w.client()
		k := w.open(c, o)
		r := newReplay(w.ctx, t, k)
		r.next(w.ctx, Ready)
		for _, breaks := range []string{"connection", "session"} {
			if _, stale := k.Stale(); stale {
				t.Errorf("stale before the %s is lost", breaks)
			}
			w.proxy.Refuse()
			id := c.Session().ID()
			w.proxy.CutSession(id)
			r.next(w.ctx, Stale)
			if breaks == "session" {
				w.proxy.ExpireSession(id)
			}
			if n, ok := k.Get(w.root + "/same"); !ok || string(n.Data) != "old" {
				t.Errorf("without its %s the cache has %+v, %v", breaks, n, ok)
			}
			w.set("/changed", "new")
			w.delete("/deleted/below")
			w.delete("/deleted")
			w.delete("/recreated/below")
			w.delete("/recreated")
			w.create("/recreated", "new")
			w.proxy.Accept()
			r.next(w.ctx, Fresh)
			if d := diff(r.nodes, treeOf(w.ctx, t, w.w, w.root)); d != "" {
				t.Errorf("fresh, but cache and server differ:\n%s", d)
			}
			w.create("/deleted", "")
			w.create("/deleted/below", "")
			w.create("/recreated/below", "")
			w.check(k)
			r.until(w.ctx, "the new nodes", func() bool { return diff(r.nodes, content(k)) == "" })
		}
		// The root, what changes and is deleted and created again, and its parent's
		// other children: everything but /same, which nothing was told of.
		if n := r.last[w.root+"/same"]; n.Version != 0 || r.types[Ready] != 1 {
			t.Errorf("events: %v", r.types)
		}
	})
}

// TestStaleBeforeItIsReady opens a cache that can't be filled for the moment.
func TestStaleBeforeItIsReady(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		w := newWorld(t, addresses(t))
		w.create("", "")
		c := w.client()
		id := c.Session().ID()
		w.proxy.Refuse()
		w.proxy.CutSession(id)
		k := w.open(c, o)
		if _, stale := k.Stale(); !stale {
			t.Error("not stale before it is ready")
		}
		w.proxy.Accept()
		w.must(k.WaitReady(w.ctx))
		if _, stale := k.Stale(); stale {
			t.Error("stale though it is ready")
		}
	})
}

// TestRoot has the cached node itself come and go.
func TestRoot(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		w := newWorld(t, addresses(t))
		k := w.ready(w.client(), o)
		if _, ok := k.Get(w.root); ok || k.Len() != 0 || k.Children(w.root) != nil {
			t.Fatalf("a cache of nothing has %v", content(k))
		}
		for range 3 {
			w.create("", "x")
			w.create("/a", "y")
			w.check(k)
			w.delete("/a")
			w.delete("")
			w.check(k)
		}
		w.create("", "x")
		w.check(k)
		if n, ok := k.Get(w.root); !ok || string(n.Data) != "x" {
			t.Errorf("root: %+v, %v", n, ok)
		}
	})
}

// TestSessionEnds shows that the cache ends with a session that is not renewed.
func TestSessionEnds(t *testing.T) {
	ends := map[string]struct {
		end  func(w *world, c *client.Client)
		want error
	}{
		"expired": {func(w *world, c *client.Client) {
			id := c.Session().ID()
			w.proxy.ExpireSession(id)
		}, client.ErrSessionExpired},
		"client closed": {func(w *world, c *client.Client) { w.must(c.Close(w.ctx)) }, client.ErrClosed},
		"auth failed": {func(w *world, c *client.Client) {
			if err := c.Session().AddAuth(w.ctx, "no such scheme", nil); err == nil {
				w.t.Error("authenticated by no such scheme")
			}
		}, client.ErrAuthFailed},
	}
	for name, tt := range ends {
		t.Run(name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, o Options) {
				w := newWorld(t, addresses(t))
				w.create("", "x")
				c := w.proxy.Client(t)
				k := w.ready(c, o)
				events := k.Events(w.ctx)
				tt.end(w, c)
				var last Event
				for ev := range events {
					last = ev
				}
				if last.Type != Closed || !errors.Is(last.Err, tt.want) {
					t.Errorf("last event %v, want closed: %v", last, tt.want)
				}
				if err := k.Sync(w.ctx); !errors.Is(err, tt.want) {
					t.Errorf("Sync = %v, want %v", err, tt.want)
				}
				if n, ok := k.Get(w.root); !ok || string(n.Data) != "x" {
					t.Errorf("what was cached is %+v, %v", n, ok)
				}
				if _, stale := k.Stale(); !stale {
					t.Error("not stale")
				}
				k2 := w.open(c, o)
				if err := k2.WaitReady(w.ctx); !errors.Is(err, tt.want) {
					t.Errorf("a cache of a session that is over: %v, want %v", err, tt.want)
				}
			})
		})
	}
}

// TestClose shows that a closed cache leaves no watch, tells nobody anything any
// more, and keeps what it has.
func TestClose(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		w := newWorld(t, addresses(t))
		w.create("", "x")
		w.create("/a", "y")
		c := w.client()
		k := w.ready(c, o)
		unread := k.Events(w.ctx)
		ended, cancel := context.WithCancel(w.ctx)
		cancelled := k.Events(ended)
		cancel()
		for range cancelled {
		}
		k.Close()
		k.Close()
		for range unread {
		}
		for _, path := range []string{w.root, w.root + "/a"} {
			if err := c.Session().CheckWatches(w.ctx, path, client.AnyWatches); !errors.Is(err, client.ErrNoWatcher) {
				t.Errorf("watches at %s after Close: %v", path, err)
			}
		}
		if n, ok := k.Get(w.root + "/a"); !ok || string(n.Data) != "y" || !errors.Is(k.Err(), ErrClosed) {
			t.Errorf("after Close: %+v, %v, Err %v", n, ok, k.Err())
		}
		if err := k.Sync(w.ctx); !errors.Is(err, ErrClosed) {
			t.Errorf("Sync after Close = %v", err)
		}
		for range k.Events(w.ctx) {
		}
		k.OnEvent(func(Event) { t.Error("an event after Close") })()
	})
}

func TestCallback(t *testing.T) {
	w := newWorld(t, addresses(t))
	w.create("", "")
	w.create("/a", "1")
	k := w.ready(w.client(), Options{})
	events := make(chan Event, 10)
	stop := k.OnEvent(func(ev Event) {
		if _, ok := k.Get(ev.Node.Path); !ok && ev.Type == Added {
			t.Errorf("%v: not in the cache", ev)
		}
		if err := k.Sync(w.ctx); err != nil {
			t.Errorf("Sync in a callback: %v", err)
		}
		events <- ev
	})
	w.set("/a", "2")
	for _, want := range []string{"added " + w.root, "added " + w.root + "/a", "ready", "changed " + w.root + "/a"} {
		if ev := <-events; ev.String() != want || ev.DataChanged() != (ev.Type == Changed) {
			t.Errorf("got %v, data changed %v; want %s", ev, ev.DataChanged(), want)
		}
	}
	stop()
	w.set("/a", "3")
	w.check(k)
	if len(events) > 0 {
		t.Errorf("after stop: %v", <-events)
	}
}

// TestSyncWaits shows that Sync waits for a connection as long as it may.
func TestSyncWaits(t *testing.T) {
	w := newWorld(t, addresses(t))
	w.create("", "")
	c := w.client()
	k := w.ready(c, Options{})
	events := k.Events(w.ctx)
	w.proxy.Refuse()
	id := c.Session().ID()
	w.proxy.CutSession(id)
	for ev := range events {
		if ev.Type == Stale {
			break
		}
	}
	ctx, cancel := context.WithCancelCause(w.ctx)
	reason := errors.New("no time")
	cancel(reason)
	if err := k.Sync(ctx); !errors.Is(err, reason) {
		t.Errorf("Sync = %v, want %v", err, reason)
	}
	done := make(chan error)
	go func() { done <- k.Sync(w.ctx) }()
	w.create("/a", "")
	w.proxy.Accept()
	w.must(<-done)
	if _, ok := k.Get(w.root + "/a"); !ok {
		t.Error("synced, but what was created is not there")
	}
}

func TestOpenRefuses(t *testing.T) {
	c := zktest.Start(t).Client(t)
	for _, tt := range []struct {
		path string
		o    Options
	}{{"", Options{}}, {"a", Options{}}, {"/a/", Options{}}, {"/a", Options{Depth: -2}}, {"/a", Options{Window: -1}}, {"/a", Options{MaxBytes: -1}}} {
		if k, err := Open(t.Context(), c, tt.path, tt.o); err == nil {
			k.Close()
			t.Errorf("Open(%q, %+v) succeeds", tt.path, tt.o)
		}
	}
}
