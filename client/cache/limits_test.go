package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
)

// only returns what of the server's tree a cache with some options is to have.
func (w *world) only(keep func(n *Node) bool) map[string]Node {
	all := treeOf(w.ctx, w.t, w.w, w.root)
	for path, n := range all {
		if !keep(&n) {
			delete(all, path)
			continue
		}
		all[path] = n
	}
	return all
}

func TestParts(t *testing.T) {
	under := func(w *world, path string) string { return strings.TrimPrefix(path, w.root) }
	tests := []struct {
		name string
		o    Options
		keep func(w *world, n *Node) bool
	}{
		{"node", Options{Depth: NodeOnly}, func(w *world, n *Node) bool { return n.Path == w.root }},
		{"children", Options{Depth: ChildrenOnly}, func(w *world, n *Node) bool { return strings.Count(under(w, n.Path), "/") <= 1 }},
		{"two levels", Options{Depth: 2}, func(w *world, n *Node) bool { return strings.Count(under(w, n.Path), "/") <= 2 }},
		{"no data", Options{NoData: true}, func(_ *world, n *Node) bool { n.Data = nil; return true }},
		{"filter", Options{Filter: func(path string) bool { return !strings.HasSuffix(path, "/b") }},
			func(w *world, n *Node) bool { return !slices.Contains(strings.Split(under(w, n.Path), "/"), "b") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, mode Options) {
				o := tt.o
				o.OneShot, o.noFeed = mode.OneShot, mode.noFeed
				w := newWorld(t, addresses(t))
				check := func(k *Cache) {
					t.Helper()
					w.must(k.Sync(w.ctx))
					got := content(k)
					if d := diff(got, w.only(func(n *Node) bool { return tt.keep(w, n) })); d != "" {
						t.Fatalf("cache and server differ:\n%s", d)
					}
					consistent(t, k, got)
				}
				for _, path := range []string{"", "/a", "/b", "/a/a", "/a/b", "/b/a", "/a/a/a", "/a/a/b"} {
					w.create(path, "of "+path)
				}
				k := w.ready(w.client(), o)
				check(k)
				for _, path := range []string{"", "/a", "/b", "/a/a", "/b/a", "/a/a/a"} {
					w.set(path, "new")
				}
				w.create("/c", "")
				w.create("/c/c", "")
				w.create("/a/a/a/a", "")
				w.delete("/a/b")
				w.delete("/b/a")
				w.delete("/b")
				check(k)
			})
		})
	}
}

func TestMaxBytes(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		w := newWorld(t, addresses(t))
		w.create("", "")
		o.MaxBytes = 10000
		k := w.ready(w.client(), o)
		events := k.Events(w.ctx)
		w.create("/small", "")
		w.must(k.Sync(w.ctx))
		w.create("/large", strings.Repeat("x", 10000))
		var last Event
		for ev := range events {
			last = ev
		}
		if last.Type != Closed || !errors.Is(last.Err, ErrTooLarge) || !errors.Is(k.Err(), ErrTooLarge) {
			t.Errorf("last event %v, Err %v: want %v", last, k.Err(), ErrTooLarge)
		}
		if err := k.Sync(w.ctx); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Sync = %v, want %v", err, ErrTooLarge)
		}
	})
}

// TestUnreadable has nodes that the cache may not read, on the way and from the
// beginning; with and without what is below them.
func TestUnreadable(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		w := newWorld(t, addresses(t))
		secret := []client.ACL{{Perms: client.PermAll &^ client.PermRead, ID: client.ID{Scheme: "world", ID: "anyone"}}}
		w.create("", "")
		w.create("/open", "")
		_, err := w.w.Create(w.ctx, w.root+"/secret", []byte("x"), client.CreateOptions{ACL: secret})
		w.must(err)
		w.create("/secret/below", "")
		k := w.open(w.client(), o)
		r := newReplay(w.ctx, t, k)
		r.next(w.ctx, Ready)
		if got := k.Children(w.root); r.types[Unreadable] != 1 || !slices.Equal(got, []string{"open"}) {
			t.Fatalf("told of %d unreadable nodes, children %q", r.types[Unreadable], got)
		}
		late := newReplay(w.ctx, t, k)
		if late.next(w.ctx, Ready); late.types[Unreadable] != 1 {
			t.Errorf("a later subscriber is told of %d unreadable nodes", late.types[Unreadable])
		}
		// Again and again does not count.
		w.set("/secret", "y")
		w.create("/secret/more", "")
		w.must(k.Sync(w.ctx))
		// What gets readable comes with its next change, and all below it.
		_, err = w.w.SetACL(w.ctx, w.root+"/secret", client.OpenACL(), client.AnyVersion)
		w.must(err)
		w.set("/secret", "z")
		w.create("/new", "") // what makes one-shot watches look
		w.must(k.Sync(w.ctx))
		if o.OneShot {
			return // servers take such watches without a word when one may not read
		}
		w.check(k)
		// And what becomes unreadable goes.
		_, err = w.w.SetACL(w.ctx, w.root+"/open", secret, client.AnyVersion)
		w.must(err)
		w.create("/open/below", "")
		w.must(k.Sync(w.ctx))
		want := k.Children(w.root)
		r.until(w.ctx, "the second unreadable node", func() bool { return r.types[Unreadable] == 2 })
		if slices.Contains(want, "open") {
			t.Errorf("children %q, open can't be read any more", want)
		}
	})
}

// without makes a client's connections those to a server that does not know some
// operations, while there are any left.
func without(op string, left int) func(*client.Options) {
	n := new(atomic.Int64)
	n.Store(int64(left))
	return func(o *client.Options) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, network, address)
			return &oldConn{Conn: nc, op: op, left: n}, err
		}
	}
}

type oldConn struct {
	net.Conn
	op      string
	left    *atomic.Int64
	greeted bool
}

// Write takes whole frames, as clients write them.
func (c *oldConn) Write(b []byte) (int, error) {
	b = slices.Clone(b)
	for at := 0; at < len(b); at += 4 + int(binary.BigEndian.Uint32(b[at:])) {
		op := b[at+8:]
		if c.greeted && client.OpCode(binary.BigEndian.Uint32(op)).String() == c.op && c.left.Add(-1) >= 0 {
			binary.BigEndian.PutUint32(op, 4711)
		}
		c.greeted = true
	}
	return c.Conn.Write(b)
}

// TestTrouble has the server refuse reads for reasons of its own.
func TestTrouble(t *testing.T) {
	for _, op := range []string{"getData", "getChildren2", "sync"} {
		t.Run(op, func(t *testing.T) {
			eachMode(t, func(t *testing.T, o Options) {
				w := newWorld(t, addresses(t))
				w.create("", "")
				w.create("/a", "1")
				w.create("/a/b", "2")
				k := w.ready(w.proxy.Client(t, without(op, 3)), o)
				if d := diff(content(k), treeOf(w.ctx, t, w.w, w.root)); d != "" {
					t.Fatalf("ready, but cache and server differ:\n%s", d)
				}
			})
		})
	}
}

// TestOldServer shows that the cache finds out by itself that a server has no
// persistent watches.
func TestOldServer(t *testing.T) {
	w := newWorld(t, addresses(t))
	w.create("", "")
	w.create("/a", "1")
	c := w.proxy.Client(t, without("addWatch", 1000))
	if _, err := c.AddWatch(w.ctx, w.root, client.WatchRecursive); !errors.Is(err, client.ErrUnimplemented) {
		t.Fatalf("AddWatch = %v, want %v", err, client.ErrUnimplemented)
	}
	k := w.ready(c, Options{noFeed: true})
	w.check(k)
	w.set("/a", "2")
	w.create("/a/b", "3")
	w.check(k)
	id := c.Session().ID()
	w.proxy.CutSession(id)
	w.set("/a/b", "4")
	w.check(k)
}

// TestViews has caches of views, whose paths are those of the view.
func TestViews(t *testing.T) {
	w := newWorld(t, addresses(t))
	w.create("", "")
	w.create("/app", "")
	w.create("/app/zookeeper", "is a node of the user's")
	w.create("/app/x", "1")
	c := w.client().Namespace(w.root)
	tests := []struct {
		c    *client.Client
		path string
		want []string
	}{
		{c, "/app", []string{"/app", "/app/x", "/app/x/y", "/app/zookeeper"}},
		{c, "/", []string{"/", "/app", "/app/x", "/app/x/y", "/app/zookeeper"}},
		{c.Namespace("/app"), "/", []string{"/", "/x", "/x/y", "/zookeeper"}},
		{c.Namespace("/app"), "/x", []string{"/x", "/x/y"}},
	}
	var caches []*Cache
	for _, tt := range tests {
		k, err := Open(w.ctx, tt.c, tt.path, Options{})
		w.must(err)
		defer k.Close()
		w.must(k.WaitReady(w.ctx))
		caches = append(caches, k)
	}
	w.create("/app/x/y", "")
	for i, tt := range tests {
		w.must(caches[i].Sync(w.ctx))
		var got []string
		for n := range caches[i].Nodes(tt.path) {
			got = append(got, n.Path)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("view of %s: %s has %q, want %q", tt.c.Root(), tt.path, got, tt.want)
		}
	}
}

// TestSystemNodes shows that a cache of all leaves out the servers' own nodes,
// and that one can have them.
func TestSystemNodes(t *testing.T) {
	w := newWorld(t, zktest.Start(t).ConnectString())
	w.create("", "")
	w.root = "/"
	all := w.ready(w.client(), Options{})
	w.root = "/zookeeper"
	system := w.ready(w.client(), Options{})
	if _, ok := all.Get("/zookeeper"); ok || all.Len() != 2 {
		t.Errorf("a cache of / has %d nodes, with /zookeeper: %v", all.Len(), ok)
	}
	if _, ok := system.Get("/zookeeper/quota"); !ok {
		t.Error("a cache of /zookeeper has no quota")
	}
}

// TestLongList caches a node with more children than a server lists in one reply.
func TestLongList(t *testing.T) {
	s := zktest.Start(t, zktest.Config("zkd.maxReply=1048575"))
	w := newWorld(t, s.ConnectString())
	w.create("", "top")
	const nodes, perMulti = 5500, 500
	name := func(i int) string { return fmt.Sprintf("%s/%s%d", w.root, strings.Repeat("n", 200), i) }
	for i := 0; i < nodes; i += perMulti {
		var ops []client.Op
		for j := range perMulti {
			ops = append(ops, client.CreateOp(name(i+j), nil, client.CreateOptions{}))
		}
		_, err := w.w.Multi(w.ctx, ops...)
		w.must(err)
	}
	if _, err := w.w.Children(w.ctx, w.root); !errors.Is(err, client.ErrMarshalling) {
		t.Fatalf("a list in one reply: %v", err)
	}
	k := w.ready(w.client(), Options{})
	if n := len(k.Children(w.root)); n != nodes {
		t.Errorf("%d children", n)
	}
	w.must(w.w.Delete(w.ctx, name(0), client.AnyVersion))
	w.proxy.CutConnections() // it lists again
	w.must(k.Sync(w.ctx))
	if n := len(k.Children(w.root)); n != nodes-1 {
		t.Errorf("%d children after a delete", n)
	}
}
