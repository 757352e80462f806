package cache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/client/zktest"
)

// observer notes what a cache tells it.
type observer struct {
	mu      sync.Mutex
	changes []string
	zxid    client.Zxid
	resets  int
}

func (o *observer) Changed(changes []client.Change, zxid client.Zxid) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range changes {
		o.changes = append(o.changes, fmt.Sprintf("%v %s", c.Kind, c.Path))
	}
	o.zxid = zxid
}

func (o *observer) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.resets++
}

// TestSee: a cache with an observer knows what the client may read, with the list of children, and does not know where the client may not read all.
func TestSee(t *testing.T) {
	s := zktest.Start(t)
	ctx := context.Background()
	connect := func() *client.Client {
		c, err := client.Connect(ctx, s.ConnectString(), client.Options{Logger: client.NoLog})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(ctx) })
		return c
	}
	c, other := connect(), connect()
	if err := other.Session().AddAuth(ctx, "digest", []byte("ann:secret")); err != nil {
		t.Fatal(err)
	}
	create := func(path string, acl ...client.ACL) {
		t.Helper()
		if _, err := other.Create(ctx, path, []byte(path), client.CreateOptions{ACL: acl}); err != nil {
			t.Fatal(err)
		}
	}
	create("/a")
	create("/a/x")
	o := &observer{}
	k, err := cache.Open(ctx, c, "/a", cache.Options{Observer: o, Room: cache.NewRoom(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	see := func(path string) (text string) {
		if err := k.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		text = "unknown"
		k.See(path, func(s *cache.Seen) {
			if text = "none"; s.Exists {
				text = fmt.Sprintf("%q %v %d", s.Names(nil), s.Whole, s.Node.Stat.NumChildren)
			}
			if s.Since > s.Version {
				t.Errorf("%s is of %v, and the cache of %v", path, s.Since, s.Version)
			}
		})
		return text
	}
	is := func(path, want string) {
		t.Helper()
		if got := see(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if err := k.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	is("/a", `["x"] true 1`)
	is("/a/none", "none")
	is("/a/none/below", "none")
	is("/b", "unknown")
	before, _ := k.Get("/a")
	create("/a/hidden", client.ACL{Perms: client.PermAll, ID: client.ID{Scheme: "auth"}})
	is("/a", `["x"] false 2`)
	is("/a/none", "unknown")
	is("/a/hidden", "unknown")
	if after, _ := k.Get("/a"); after.Stat.Pzxid <= before.Stat.Pzxid {
		t.Errorf("the parent of a hidden node has %+v", after.Stat)
	}
	if err := other.Delete(ctx, "/a/hidden", -1); err != nil {
		t.Fatal(err)
	}
	is("/a/none", "none")
	if _, err := other.SetACL(ctx, "/a/x", []client.ACL{{Perms: client.PermAll, ID: client.ID{Scheme: "auth"}}}, -1); err != nil {
		t.Fatal(err)
	}
	is("/a/x", "unknown")
	o.mu.Lock()
	defer o.mu.Unlock()
	want := []string{"children /a", "children /a", "acl /a/x"}
	if fmt.Sprint(o.changes) != fmt.Sprint(want) || o.zxid != k.Version() {
		t.Errorf("told %q up to %v, want %q up to %v", o.changes, o.zxid, want, k.Version())
	}
}

// TestRoom: a cache that takes more than the room of all ends, and gives back what it had.
func TestRoom(t *testing.T) {
	s := zktest.Start(t)
	ctx := context.Background()
	c, err := client.Connect(ctx, s.ConnectString(), client.Options{Logger: client.NoLog})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	room := cache.NewRoom(2000)
	for _, path := range []string{"/a", "/b"} {
		if _, err := c.Create(ctx, path, make([]byte, 500), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var caches []*cache.Cache
	for _, path := range []string{"/a", "/b"} {
		k, err := cache.Open(ctx, c, path, cache.Options{Observer: &observer{}, Room: room})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if err := k.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
		caches = append(caches, k)
	}
	both := room.Used()
	if both < 1000 || both != caches[0].Bytes()+caches[1].Bytes() {
		t.Errorf("%d bytes are taken", both)
	}
	if _, err := c.Set(ctx, "/b", make([]byte, 5000), -1); err != nil {
		t.Fatal(err)
	}
	for ev := range caches[1].Events(ctx) {
		if ev.Type == cache.Closed {
			break
		}
	}
	if err := caches[1].Err(); !errors.Is(err, cache.ErrTooLarge) || room.Used() != caches[0].Bytes() || caches[1].Len() != 0 {
		t.Errorf("%v, %d bytes are taken, of which the first cache has %d", err, room.Used(), caches[0].Bytes())
	}
	if caches[1].See("/b", func(*cache.Seen) {}) || !caches[0].See("/a", func(*cache.Seen) {}) {
		t.Error("a cache knows what it has given up, or not what it has")
	}
}
