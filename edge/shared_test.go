package edge

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// cached has an edge cache subtrees.
func cached(paths ...string) func(*Options) {
	return func(o *Options) { o.Cached, o.CachedBytes = paths, 1<<20 }
}

// until waits until something is so.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond) // most conditions ask the edge, which takes longer than to wait
	defer poll.Stop()
	for end := time.Now().Add(patience); !is(); <-poll.C {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// remembers reads a node until the edge answers from memory.
func remembers(t *testing.T, e *Edge, c *client.Client, path string) {
	t.Helper()
	before := e.figures.cachedReads.Load()
	until(t, "nothing is answered from memory", func() bool {
		c.Exists(t.Context(), path)
		return e.figures.cachedReads.Load() > before
	})
}

// TestCached: reads of a cached subtree are answered by the edge, and show the client's own writes and those of others. Watches there have their events, by
// one watch of the edge for all clients. A client that has sent an addauth is answered by the servers.
func TestCached(t *testing.T) {
	s := zktest.Start(t)
	e, address := start(t, s.ConnectString(), cached("/a", "/b"))
	ctx := t.Context()
	c := old(t, address)
	for _, path := range []string{"/a", "/a/x", "/o"} {
		_, err := c.Create(ctx, path, []byte("1"), client.CreateOptions{})
		ok(t, err)
	}
	remembers(t, e, c, "/a/x")
	for i := range 20 {
		text := fmt.Sprint(i)
		_, err := c.Set(ctx, "/a/x", []byte(text), -1)
		ok(t, err)
		if n, err := c.Get(ctx, "/a/x"); err != nil || string(n.Data) != text {
			t.Fatalf("%q, %v: want %s", n.Data, err, text)
		}
	}
	if names, err := c.Children(ctx, "/a"); err != nil || strings.Join(names.Names, " ") != "x" {
		t.Errorf("%v, %v", names, err)
	}
	if p, err := c.Exists(ctx, "/a/none"); err != nil || p.Exists {
		t.Errorf("%v, %v", p, err)
	}
	var watches []*client.Watch
	for range 20 {
		c := old(t, address)
		remembers(t, e, c, "/a/x")
		n, err := c.GetW(ctx, "/a/x")
		ok(t, err)
		watches = append(watches, n.Watch)
	}
	_, err := c.Set(ctx, "/a/x", []byte("told"), -1)
	ok(t, err)
	for _, w := range watches {
		if ev, err := w.Next(ctx); err != nil || ev.Type != client.EventDataChanged {
			t.Fatalf("%v, %v", ev, err)
		}
	}
	if n := e.figures.cachedEvents.Load(); n != int64(len(watches)) {
		t.Errorf("%d events are told from memory", n)
	}
	own := old(t, address)
	ok(t, own.Session().AddAuth(ctx, "digest", []byte("ann:secret")))
	before := e.figures.cachedReads.Load()
	for range 10 {
		_, err := own.Get(ctx, "/a/x")
		ok(t, err)
	}
	if n := e.figures.cachedReads.Load(); n != before {
		t.Errorf("%d reads of a client with a password are answered from memory", n-before)
	}
	if text := say(t, address, "srvr"); !strings.Contains(text, "Cached: /a,/b, 2 nodes, ") || strings.Contains(text, "Trouble") {
		t.Error(text)
	}
}

// TestCachedIsGivenUp: without room, or feeds, the servers answer, and the edge says why.
func TestCachedIsGivenUp(t *testing.T) {
	for name, tt := range map[string]struct {
		config []string
		most   int64
		want   string
	}{
		"no room":  {nil, 100, "/a: it takes more than edge.cachedBytes leaves"},
		"no feeds": {[]string{"zkd.feedHistoryKb=0"}, 1 << 20, "/a: the servers offer no feeds"},
	} {
		t.Run(name, func(t *testing.T) {
			s := zktest.Start(t, zktest.Config(tt.config...))
			e, address := start(t, s.ConnectString(), func(o *Options) { o.Cached, o.CachedBytes = []string{"/a"}, tt.most })
			c := old(t, address)
			_, err := c.Create(t.Context(), "/a", nil, client.CreateOptions{})
			ok(t, err)
			until(t, "it does not say why", func() bool {
				_, err := c.Get(t.Context(), "/a")
				ok(t, err)
				return strings.Contains(say(t, address, "srvr"), tt.want)
			})
			if n := e.memory.room.Used(); n != 0 {
				t.Errorf("%d bytes are taken", n)
			}
		})
	}
}

// TestIdleMemory: a memory that nobody has is closed after a while, and all are when the edge ends.
func TestIdleMemory(t *testing.T) {
	s := zktest.Start(t)
	e, address := start(t, s.ConnectString(), cached("/a"))
	c := old(t, address)
	if list := e.memory.idle(false); len(list) != 0 {
		t.Error("the memory of a client is idle")
	}
	c.Close(context.Background())
	until(t, "the memory is not idle", func() bool {
		e.memory.mu.Lock()
		defer e.memory.mu.Unlock()
		for _, m := range e.memory.open {
			if m.users == 0 {
				m.since = time.Now().Add(-2 * keepsMemory)
				return true
			}
		}
		return false
	})
	list := e.memory.idle(false)
	if len(list) != 1 {
		t.Fatalf("%d memories", len(list))
	}
	list[0].Close()
}
