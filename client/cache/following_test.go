package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

// follows reports whether the cache has a feed: then it has no watch.
func (w *world) follows(c *client.Client) bool {
	w.t.Helper()
	err := c.Session().CheckWatches(w.ctx, w.root, client.AnyWatches)
	if !errors.Is(err, client.ErrNoWatcher) {
		w.must(err)
	}
	return err != nil
}

// TestEveryChange has a node changed many times without a pause: a feed brings each change, in order, and
// the parent's Stat with each.
func TestEveryChange(t *testing.T) {
	w := newWorld(t, zktest.Start(t).ConnectString())
	w.create("", "")
	w.create("/a", "0")
	c := w.client()
	k := w.ready(c, Options{})
	if !w.follows(c) {
		t.Error("the cache has a watch")
	}
	r := newReplay(w.ctx, t, k)
	r.next(w.ctx, Ready)
	const changes = 300
	for i := 1; i <= changes; i++ {
		w.w.Async().Set(w.root+"/a", fmt.Append(nil, i), client.AnyVersion)
		w.w.Async().Create(fmt.Sprintf("%s/b%d", w.root, i), nil, client.CreateOptions{})
	}
	for i := 1; i <= changes; i++ {
		r.next(w.ctx, Changed)
		if n := r.nodes[w.root+"/a"]; n.Stat.Version != int32(i) || string(n.Data) != fmt.Sprint(i) {
			t.Fatalf("after change %d: %+v", i, n)
		}
		r.next(w.ctx, Added)
		r.next(w.ctx, Changed)
		if n := r.nodes[w.root]; n.Stat.NumChildren != int32(i+1) || n.Stat.Cversion != int32(i+1) {
			t.Fatalf("after change %d: %+v", i, n)
		}
	}
	w.check(k)
}

// TestWholeTransactions has readers look at nodes that change together.
func TestWholeTransactions(t *testing.T) {
	w := newWorld(t, zktest.Start(t).ConnectString())
	w.create("", "")
	w.create("/a", "0")
	w.create("/b", "0")
	k := w.ready(w.client(), Options{})
	const changes = 300
	for i := 1; i <= changes; i++ {
		data := fmt.Append(nil, i)
		w.w.Async().Multi([]client.Op{client.SetOp(w.root+"/a", data, -1), client.SetOp(w.root+"/b", data, -1)})
	}
	for last := ""; last != fmt.Sprint(changes); {
		var got []string
		for n := range k.Nodes(w.root) {
			got = append(got, string(n.Data))
		}
		if last = got[1]; got[1] != got[2] {
			t.Fatalf("two nodes that change together have %q", got)
		}
	}
}

// TestOverrun has more changed than a server remembers, while the cache is away, or connected and slow: it
// reads everything again, and listeners get the differences.
func TestOverrun(t *testing.T) {
	for _, slow := range []bool{false, true} {
		t.Run(fmt.Sprintf("slow=%v", slow), func(t *testing.T) {
			s := zktest.Start(t, zktest.Config("zkd.feedHistoryKb=64"))
			w := newWorld(t, s.ConnectString())
			for _, path := range []string{"", "/same", "/changed", "/deleted", "/deleted/below"} {
				w.create(path, "old")
			}
			var gate sync.RWMutex
			c := w.proxy.Client(t, gated(&gate))
			k := w.ready(c, Options{})
			r := newReplay(w.ctx, t, k)
			r.next(w.ctx, Ready)
			if slow {
				gate.Lock()
			} else {
				w.proxy.Refuse()
				w.proxy.CutSession(c.Session().ID())
				r.next(w.ctx, Stale)
			}
			w.delete("/deleted/below")
			w.delete("/deleted")
			const changes = 400 // more than what a slow client has asked for
			for i := range changes {
				w.w.Async().Set(w.root+"/changed", fmt.Append(nil, i, strings.Repeat("x", 5000)), client.AnyVersion)
			}
			w.create("/new", "")
			if slow {
				gate.Unlock()
			} else {
				w.proxy.Accept()
			}
			r.until(w.ctx, "Fresh", func() bool { return r.types[Fresh] == 1 })
			w.check(k)
			if d := diff(r.nodes, content(k)); d != "" || r.nodes[w.root+"/changed"].Stat.Version != changes {
				t.Errorf("fresh, but the events give something else:\n%s", d)
			}
			if n := r.types[Stale]; n != 1 {
				t.Errorf("%d times stale", n)
			}
			before := s.Requests()[jute.OpSubtreePage]
			w.set("/same", "new")
			w.check(k)
			if n := s.Requests()[jute.OpSubtreePage] - before; n != 0 || !w.follows(c) {
				t.Errorf("the cache reads again: %d pages", n)
			}
		})
	}
}

// gated makes a client's connections. They read nothing while gate is locked.
func gated(gate *sync.RWMutex) func(*client.Options) {
	return func(o *client.Options) {
		o.RenewSession = true
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, network, address)
			return gatedConn{nc, gate}, err
		}
	}
}

type gatedConn struct {
	net.Conn
	gate *sync.RWMutex
}

func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.RLock()
	defer c.gate.RUnlock()
	return n, err
}

// TestReconnect shows that a cache whose connection is lost continues where it was, without reading
// anything.
func TestReconnect(t *testing.T) {
	e := zktest.StartEnsemble(t, 3, zktest.Patient())
	w := newWorld(t, e.ConnectString())
	w.create("", "")
	for i := range 20 {
		w.create(fmt.Sprint("/", i), "")
	}
	c := w.client()
	k := w.ready(c, Options{})
	pages, reads := w.proxy.Requests()[jute.OpSubtreePage], w.proxy.Requests()[jute.OpGetData]
	for i := range 10 {
		w.proxy.CutSession(c.Session().ID())
		w.set(fmt.Sprint("/", i), "new")
		w.delete(fmt.Sprint("/", 10+i))
		w.create(fmt.Sprint("/", 10+i), "again")
		w.check(k)
	}
	if p, g := w.proxy.Requests()[jute.OpSubtreePage], w.proxy.Requests()[jute.OpGetData]; p != pages || g != reads {
		t.Errorf("%d pages and %d nodes were read again", p-pages, g-reads)
	}
}

// TestRestart has the only server end and begin again, so that it remembers no more than its log has.
func TestRestart(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		s := zktest.Start(t)
		w := newWorld(t, s.ConnectString())
		w.create("", "")
		w.create("/a", "1")
		k := w.ready(w.client(), o)
		for i := range 3 {
			s.Restart()
			w.w.WithRetry(client.DefaultRetry()).Set(w.ctx, w.root+"/a", fmt.Append(nil, i), client.AnyVersion)
			w.check(k)
		}
	})
}

// plain makes a client's connections, while plain is set, those to a server that grants no extensions.
func plain(plain *atomic.Bool) func(*client.Options) {
	return func(o *client.Options) {
		o.RenewSession = true
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, network, address)
			return &plainConn{Conn: nc, asks: !plain.Load()}, err
		}
	}
}

type plainConn struct {
	net.Conn
	asks bool // the client may ask for extensions; or has asked already
}

func (c *plainConn) Write(b []byte) (int, error) {
	if !c.asks { // the first frame is the connect request, with the features at its end
		b = slices.Clone(b)
		clear(b[len(b)-12 : len(b)-8])
		c.asks = true
	}
	return c.Conn.Write(b)
}

// TestOtherServers has a cache move between servers that offer feeds and those that do not.
func TestOtherServers(t *testing.T) {
	w := newWorld(t, zktest.Start(t).ConnectString())
	w.create("", "")
	w.create("/a", "1")
	var old atomic.Bool
	old.Store(true)
	c := w.proxy.Client(t, plain(&old))
	k := w.ready(c, Options{})
	r := newReplay(w.ctx, t, k)
	for i := range 6 {
		if w.check(k); w.follows(c) == old.Load() {
			t.Errorf("round %d: it follows a feed: %v", i, !old.Load())
		}
		old.Store(i%2 == 1)
		w.proxy.CutSession(c.Session().ID())
		w.set("/a", fmt.Sprint(i))
		w.create(fmt.Sprint("/b", i), "")
	}
	w.check(k)
	want := content(k)
	r.until(w.ctx, "the cache's content", func() bool { return diff(r.nodes, want) == "" })
}

// TestFeedRefused has a server with room for one feed on a connection. The other caches use watches, and ask for
// a feed again only on the next connection.
func TestFeedRefused(t *testing.T) {
	w := newWorld(t, zktest.Start(t, zktest.Config("zkd.maxFeedsPerConnection=1")).ConnectString())
	w.create("", "")
	w.create("/a", "1")
	var dials atomic.Int64
	c := w.proxy.Client(t, func(o *client.Options) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	})
	var caches []*Cache
	for range 3 {
		caches = append(caches, w.ready(c, Options{}))
	}
	for i := range 4 {
		for range 10 {
			w.set("/a", fmt.Sprint(i))
		}
		for _, k := range caches {
			w.check(k)
		}
		if n := w.proxy.Requests()[jute.OpSubscribe]; n > 2*len(caches)*int(dials.Load()) {
			t.Fatalf("%d feeds were asked for on %d connections", n, dials.Load())
		}
		w.proxy.CutSession(c.Session().ID())
	}
	for _, k := range caches[:2] {
		k.Close()
	}
	w.check(caches[2])
	w.proxy.CutSession(c.Session().ID())
	w.set("/a", "last")
	if w.check(caches[2]); !w.follows(c) {
		t.Error("the only cache does not follow a feed")
	}
}

// throttled has the server refuse so many feeds, and the answers say that there are too many requests.
func throttled(left int64) func(*client.Options) {
	n := new(atomic.Int64)
	n.Store(left)
	return func(o *client.Options) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, network, address)
			return &throttledConn{Conn: nc, left: n}, err
		}
	}
}

type throttledConn struct {
	net.Conn
	left    *atomic.Int64
	greeted bool
	in      []byte // the rest of a frame
}

func (c *throttledConn) Write(b []byte) (int, error) {
	b = slices.Clone(b)
	for at := 0; at < len(b); {
		next := at + 4 + int(binary.BigEndian.Uint32(b[at:]))
		if c.greeted && jute.OpCode(binary.BigEndian.Uint32(b[at+8:])) == jute.OpSubscribe && c.left.Add(-1) >= 0 {
			binary.BigEndian.PutUint32(b[next-4:], 1<<31) // a credit that is BADARGUMENTS
		}
		c.greeted, at = true, next
	}
	return c.Conn.Write(b)
}

func (c *throttledConn) Read(b []byte) (int, error) {
	if len(c.in) == 0 {
		head := make([]byte, 4)
		if _, err := io.ReadFull(c.Conn, head); err != nil {
			return 0, err
		}
		c.in = append(head, make([]byte, binary.BigEndian.Uint32(head))...)
		if _, err := io.ReadFull(c.Conn, c.in[4:]); err != nil {
			return 0, err
		}
		const errAt = 4 + 4 + 8
		if len(c.in) == errAt+4 && jute.Code(binary.BigEndian.Uint32(c.in[errAt:])) == jute.ErrBadArguments {
			code := jute.ErrThrottledOp
			binary.BigEndian.PutUint32(c.in[errAt:], uint32(code))
		}
	}
	n := copy(b, c.in)
	c.in = c.in[n:]
	return n, nil
}

// TestFeedThrottled has a server that limits the rate of requests refuse a feed: the cache asks for it again.
func TestFeedThrottled(t *testing.T) {
	w := newWorld(t, zktest.Start(t).ConnectString())
	w.create("", "")
	w.create("/a", "1")
	c := w.proxy.Client(t, throttled(2))
	if w.check(w.ready(c, Options{})); !w.follows(c) {
		t.Error("the cache does not follow a feed")
	}
}

// TestLostACL has nodes become unreadable, change and go, and become readable again.
func TestLostACL(t *testing.T) {
	w := newWorld(t, zktest.Start(t).ConnectString())
	secret := []client.ACL{{Perms: client.PermAll &^ client.PermRead, ID: client.ID{Scheme: "world", ID: "anyone"}}}
	acl := func(path string, acl []client.ACL) {
		t.Helper()
		_, err := w.w.SetACL(w.ctx, w.root+path, acl, client.AnyVersion)
		w.must(err)
	}
	for _, path := range []string{"", "/a", "/a/b", "/c"} {
		w.create(path, "old")
	}
	k := w.ready(w.client(), Options{})
	r := newReplay(w.ctx, t, k)
	r.next(w.ctx, Ready)
	names := func(want ...string) {
		t.Helper()
		w.must(k.Sync(w.ctx))
		if got := k.Children(w.root); !slices.Equal(got, want) {
			t.Errorf("children %q, want %q", got, want)
		}
	}
	acl("/a", secret)
	acl("/c", secret)
	names()
	r.until(w.ctx, "what can't be read", func() bool { return r.types[Unreadable] == 2 })
	w.delete("/c")
	w.create("/a/d", "new")
	w.create("/c", "new")
	names("c")
	acl("/a", client.OpenACL())
	names("a", "c")
	w.check(k)
	acl("", secret)
	w.must(k.Sync(w.ctx))
	if k.Len() != 0 {
		t.Errorf("the root can't be read, and the cache has %v", content(k))
	}
	acl("", client.OpenACL())
	w.check(k)
	want := content(k)
	r.until(w.ctx, "the cache's content", func() bool { return diff(r.nodes, want) == "" })
}

// lossy makes a server lose the view of a subtree after its first page, so many times.
func lossy(times int64) func(*client.Options) {
	left := new(atomic.Int64)
	left.Store(times)
	return func(o *client.Options) {
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, network, address)
			return &lossyConn{Conn: nc, left: left}, err
		}
	}
}

type lossyConn struct {
	net.Conn
	left    *atomic.Int64
	greeted bool
}

func (c *lossyConn) Write(b []byte) (int, error) {
	b = slices.Clone(b)
	for at := 0; at < len(b); at += 4 + int(binary.BigEndian.Uint32(b[at:])) {
		if c.greeted && jute.OpCode(binary.BigEndian.Uint32(b[at+8:])) == jute.OpSubtreePage {
			view := b[at+12+4+int(binary.BigEndian.Uint32(b[at+12:])):]
			if binary.BigEndian.Uint64(view) != 0 && c.left.Add(-1) >= 0 {
				binary.BigEndian.PutUint64(view, 4711)
			}
		}
		c.greeted = true
	}
	return c.Conn.Write(b)
}

// TestLostViews has servers lose the state of a large subtree while it is read: the cache reads it again,
// and uses watches if that does not help.
func TestLostViews(t *testing.T) {
	for times, follows := range map[int64]bool{maxLost - 1: true, 1 << 30: false} {
		t.Run(fmt.Sprint(follows), func(t *testing.T) {
			w := newWorld(t, zktest.Start(t).ConnectString())
			w.create("", "")
			for range 10 {
				var ops []client.Op
				for range 500 {
					ops = append(ops, client.CreateOp(w.root+"/n", nil, client.CreateOptions{Mode: client.PersistentSequential}))
				}
				_, err := w.w.Multi(w.ctx, ops...)
				w.must(err)
			}
			c := w.proxy.Client(t, lossy(times))
			k := w.ready(c, Options{})
			if n := len(k.Children(w.root)); n != 5000 || w.follows(c) != follows {
				t.Errorf("%d children, it follows a feed: %v", n, !follows)
			}
		})
	}
}
