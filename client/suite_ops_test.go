package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
)

// TestSuiteNodes goes through the life of a node.
func TestSuiteNodes(t *testing.T) {
	inBothForms(t, func(t *testing.T, _ *world, c api) {
		ctx := deadline(t)
		path, made, err := c.CreateStat(ctx, "/a", []byte("one"), client.Persistent, nil)
		if err != nil || path != "/a" || made.Czxid == 0 || made.DataLength != 3 {
			t.Fatalf("create = %q %+v, %v", path, made, err)
		}
		data, stat, err := c.Get(ctx, "/a")
		if err != nil || string(data) != "one" || stat != made {
			t.Errorf("get = %q %+v, %v; want %+v", data, stat, err, made)
		}
		set, err := c.Set(ctx, "/a", []byte("two!"), made.Version)
		if err != nil || set.Version != 1 || set.Mzxid <= made.Mzxid || set.DataLength != 4 || set.Czxid != made.Czxid {
			t.Errorf("set = %+v, %v", set, err)
		}
		if _, err := c.Create(ctx, "/a/b", nil, client.Persistent, nil); err != nil {
			t.Error(err)
		}
		names, parent, err := c.Children(ctx, "/a")
		if err != nil || !slices.Equal(names, []string{"b"}) || parent.NumChildren != 1 || parent.Cversion != 1 {
			t.Errorf("children = %q %+v, %v", names, parent, err)
		}
		if stat, there, err := c.Exists(ctx, "/a"); err != nil || !there || stat != parent {
			t.Errorf("exists = %v %+v, %v", there, stat, err)
		}
		ok(t, c.Delete(ctx, "/a/b", 0))
		ok(t, c.Delete(ctx, "/a", client.AnyVersion))
		if stat, there, err := c.Exists(ctx, "/a"); err != nil || there || stat != (client.Stat{}) {
			t.Errorf("exists = %v %+v, %v", there, stat, err)
		}
		ok(t, c.Sync(ctx, "/"))
		ok(t, c.Sync(ctx, "/no such node"))
	})
}

// TestSuiteNullData tells null from empty, which the protocol does.
func TestSuiteNullData(t *testing.T) {
	inBothForms(t, func(t *testing.T, _ *world, c api) {
		ctx := deadline(t)
		for name, data := range map[string][]byte{"/null": nil, "/empty": {}} {
			_, err := c.Create(ctx, name, data, client.Persistent, nil)
			ok(t, err)
			got, stat, err := c.Get(ctx, name)
			if err != nil || len(got) != 0 || (got == nil) != (data == nil) || stat.DataLength != 0 {
				t.Errorf("get %s = %#v, %v", name, got, err)
			}
			_, err = c.Set(ctx, name, []byte("x"), client.AnyVersion)
			ok(t, err)
			_, err = c.Set(ctx, name, data, client.AnyVersion)
			ok(t, err)
			if got, _, err := c.Get(ctx, name); err != nil || (got == nil) != (data == nil) {
				t.Errorf("get %s after a set = %#v, %v", name, got, err)
			}
		}
	})
}

func TestSuiteModes(t *testing.T) {
	inBothForms(t, func(t *testing.T, w *world, c api) {
		ctx := deadline(t)
		id, _ := c.Session()
		for _, mode := range []client.CreateMode{client.Persistent, client.Ephemeral, client.PersistentSequential,
			client.EphemeralSequential, client.Container, client.PersistentTTL, client.PersistentSequentialTTL} {
			var path string
			var stat client.Stat
			var err error
			want := fmt.Sprintf("/n%d-", mode)
			if mode.TTL() {
				path, stat, err = c.CreateTTL(ctx, want, []byte("x"), mode, time.Hour)
			} else {
				path, stat, err = c.CreateStat(ctx, want, []byte("x"), mode, nil)
			}
			if err != nil {
				t.Errorf("create mode %d: %v", mode, err)
				continue
			}
			number, prefixed := strings.CutPrefix(path, want)
			if !prefixed || mode.Sequential() != (len(number) == 10) {
				t.Errorf("mode %d made %q", mode, path)
			}
			// Of containers and TTL nodes the servers show no owner.
			if owner := stat.EphemeralOwner; mode.Ephemeral() && owner != id || !mode.Ephemeral() && owner != 0 {
				t.Errorf("mode %d: owner %v, session %v", mode, owner, id)
			}
			if got, there, err := c.Exists(ctx, path); err != nil || !there || got.EphemeralOwner != stat.EphemeralOwner {
				t.Errorf("exists %s = %v %+v, %v", path, there, got, err)
			}
		}
		first, err := c.Create(ctx, "/q", nil, client.Persistent, nil)
		ok(t, err)
		var paths []string
		for range 3 {
			p, err := c.Create(ctx, first+"/", nil, client.PersistentSequential, nil)
			ok(t, err)
			paths = append(paths, p)
		}
		if want := []string{"/q/0000000000", "/q/0000000001", "/q/0000000002"}; !slices.Equal(paths, want) {
			t.Errorf("sequential nodes %q, want %q", paths, want)
		}
	})
}

// TestSuiteNodesThatGo waits for the servers to delete a TTL node and an empty
// container.
func TestSuiteNodesThatGo(t *testing.T) {
	inBothForms(t, func(t *testing.T, _ *world, c api) {
		ctx := deadline(t)
		_, _, err := c.CreateTTL(ctx, "/ttl", nil, client.PersistentTTL, time.Millisecond)
		ok(t, err)
		_, err = c.Create(ctx, "/box", nil, client.Container, nil)
		ok(t, err)
		for _, path := range []string{"/ttl", "/box"} {
			watch, err := c.ExistsW(ctx, path)
			ok(t, err)
			if path == "/box" {
				_, err = c.Multi(ctx, client.CreateOp("/box/a", nil, client.Persistent, nil), client.DeleteOp("/box/a", 0))
				ok(t, err)
			}
			// Either it is gone already, and the watch waits for its creation.
			_, there, err := c.Exists(ctx, path)
			ok(t, err)
			if !there {
				continue
			}
			if ev, err := watch.Next(ctx); err != nil || ev.Type != client.EventDeleted {
				t.Errorf("%s: event %v, %v", path, ev, err)
			}
		}
	})
}

func TestSuiteACL(t *testing.T) {
	inBothForms(t, func(t *testing.T, w *world, c api) {
		ctx := deadline(t)
		ok(t, c.AddAuth(ctx, "digest", "ann:secret"))
		_, err := c.Create(ctx, "/own", []byte("x"), client.Persistent, client.CreatorACL())
		ok(t, err)
		acl, stat, err := c.GetACL(ctx, "/own")
		if err != nil || len(acl) != 1 || acl[0].Perms != client.PermAll || acl[0].ID.Scheme != "digest" || !strings.HasPrefix(acl[0].ID.ID, "ann:") {
			t.Errorf("getACL = %v, %v", acl, err)
		}
		stranger := w.client(t)
		_, _, err = stranger.Get(ctx, "/own")
		failsWith(t, err, client.ErrNoAuth, "getData", "/own")
		_, err = stranger.Set(ctx, "/own", nil, client.AnyVersion)
		failsWith(t, err, client.ErrNoAuth, "setData", "/own")
		_, err = c.SetACL(ctx, "/own", client.ReadACL(), stat.Aversion+1)
		failsWith(t, err, client.ErrBadVersion, "setACL", "/own")
		after, err := c.SetACL(ctx, "/own", append(client.ReadACL(), acl...), stat.Aversion)
		if err != nil || after.Aversion != stat.Aversion+1 {
			t.Errorf("setACL = %+v, %v", after, err)
		}
		if data, _, err := stranger.Get(ctx, "/own"); err != nil || string(data) != "x" {
			t.Errorf("get = %q, %v", data, err)
		}
		// Whom the servers take it for outlives the connection.
		states := c.States(ctx)
		id, _ := c.Session()
		w.CutSession(id)
		ended(t, states, client.StateConnected)
		_, err = c.Set(ctx, "/own", []byte("y"), client.AnyVersion)
		ok(t, err)
		who, err := c.WhoAmI(ctx)
		if err != nil || !slices.ContainsFunc(who, func(i client.Identity) bool { return i.Scheme == "digest" && i.User == "ann" }) ||
			!slices.ContainsFunc(who, func(i client.Identity) bool { return i.Scheme == "ip" }) {
			t.Errorf("whoAmI = %v, %v", who, err)
		}
	})
}

func TestSuiteMulti(t *testing.T) {
	inBothForms(t, func(t *testing.T, _ *world, c api) {
		ctx := deadline(t)
		results, err := c.Multi(ctx,
			client.CreateOp("/m", []byte("a"), client.Persistent, nil),
			client.CreateOp("/m/s-", nil, client.PersistentSequential, nil),
			client.CreateOp("/box", nil, client.Container, nil),
			client.CreateTTLOp("/ttl", nil, client.PersistentTTL, nil, time.Hour),
			client.SetOp("/m", []byte("b"), 0),
			client.CheckOp("/m", 1),
			client.DeleteOp("/ttl", client.AnyVersion))
		if err != nil || len(results) != 7 {
			t.Fatalf("multi = %v, %v", results, err)
		}
		if results[0].Path != "/m" || results[1].Path != "/m/s-0000000000" || results[4].Stat.Version != 1 {
			t.Errorf("multi = %+v", results)
		}
		results, err = c.Multi(ctx,
			client.SetOp("/m", []byte("c"), 1),
			client.DeleteOp("/m", client.AnyVersion),
			client.CheckOp("/m", 9))
		failsWith(t, err, client.ErrNotEmpty, "multi", "operation 1", "delete", "/m")
		if m, is := errors.AsType[*client.MultiError](err); !is || m.Index != 1 || m.Path != "/m" || m.Err != client.ErrNotEmpty {
			t.Errorf("multi = %+v", m)
		}
		if len(results) != 3 || results[0].Err != nil || results[1].Err != client.ErrNotEmpty || results[2].Err != client.ErrRuntimeInconsistency {
			t.Errorf("results %+v", results)
		}
		if data, stat, err := c.Get(ctx, "/m"); err != nil || string(data) != "b" || stat.Version != 1 {
			t.Errorf("after a multi that failed: %q %+v, %v", data, stat, err)
		}
		if results, err := c.Multi(ctx); err != nil || len(results) != 0 {
			t.Errorf("a multi of nothing = %v, %v", results, err)
		}
	})
}

func TestSuiteMultiRead(t *testing.T) {
	inBothForms(t, func(t *testing.T, _ *world, c api) {
		ctx := deadline(t)
		makeNode(t, c.Client, "/a", "x")
		makeNode(t, c.Client, "/a/b", "")
		results, err := c.MultiRead(ctx, client.GetOp("/a"), client.GetOp("/none"), client.ChildrenOp("/a"))
		if err != nil || len(results) != 3 {
			t.Fatalf("multiRead = %+v, %v", results, err)
		}
		if r := results[0]; string(r.Data) != "x" || r.Stat.NumChildren != 1 || r.Err != nil {
			t.Errorf("get = %+v", r)
		}
		if r := results[1]; r.Err != client.ErrNoNode {
			t.Errorf("get of none = %+v", r)
		}
		if r := results[2]; !slices.Equal(r.Children, []string{"b"}) || r.Err != nil {
			t.Errorf("children = %+v", r)
		}
	})
}

func TestSuiteCounts(t *testing.T) {
	inBothForms(t, func(t *testing.T, _ *world, c api) {
		ctx := deadline(t)
		for _, p := range []string{"/a", "/a/b", "/a/b/c", "/ab"} {
			makeNode(t, c.Client, p, "")
		}
		if n, err := c.CountDescendants(ctx, "/a"); err != nil || n != 2 {
			t.Errorf("descendants of /a: %d, %v", n, err)
		}
		for _, p := range []string{"/a/e", "/ab/e", "/e"} {
			_, err := c.Create(ctx, p, nil, client.Ephemeral, nil)
			ok(t, err)
		}
		for prefix, want := range map[string][]string{"/": {"/a/e", "/ab/e", "/e"}, "/a/": {"/a/e"}, "/a": {"/a/e", "/ab/e"}, "/x": nil} {
			got, err := c.Ephemerals(ctx, prefix)
			slices.Sort(got)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("ephemerals %s = %q, %v; want %q", prefix, got, err, want)
			}
		}
	})
}

// TestSuiteLargeListing reads a reply of 3 MiB, which is more than a request may
// have, and refuses it where the options say so.
func TestSuiteLargeListing(t *testing.T) {
	w := newWorld(t, 1)
	c := w.client(t)
	ctx := deadline(t)
	const nodes, perMulti = 14_000, 1000
	name := strings.Repeat("n", 220)
	var multis []*client.Future[[]client.OpResult]
	for i := range nodes / perMulti {
		var ops []client.Op
		for j := range perMulti {
			ops = append(ops, client.CreateOp(fmt.Sprintf("/%s%05d", name, i*perMulti+j), nil, client.Persistent, nil))
		}
		multis = append(multis, c.Async().Multi(ops))
	}
	for _, m := range multis {
		_, err := m.Wait(ctx)
		ok(t, err)
	}
	names, stat, err := c.Children(ctx, "/")
	size := 0
	for _, n := range names {
		size += 4 + len(n)
	}
	if err != nil || len(names) != nodes || stat.NumChildren != nodes || size < 3<<20 {
		t.Errorf("%d children in %d bytes, %v", len(names), size, err)
	}
	small := w.client(t, func(o *client.Options) { o.MaxReply = 1 << 20 })
	_, _, err = small.Children(ctx, "/")
	failsWith(t, err, client.ErrConnectionLoss, "getChildren", "1048576", "MaxReply")
}

// TestSuiteLargeRequests sends what just fits, and refuses what does not without
// troubling the servers.
func TestSuiteLargeRequests(t *testing.T) {
	inBothForms(t, func(t *testing.T, _ *world, c api) {
		ctx := deadline(t)
		states := c.States(ctx)
		big := bytes.Repeat([]byte("x"), 1_000_000)
		_, err := c.Create(ctx, "/big", big, client.Persistent, nil)
		ok(t, err)
		if data, _, err := c.Get(ctx, "/big"); err != nil || !bytes.Equal(data, big) {
			t.Errorf("get: %d bytes, %v", len(data), err)
		}
		_, err = c.Set(ctx, "/big", make([]byte, client.DefaultMaxRequest), client.AnyVersion)
		failsWith(t, err, client.ErrBadArguments, "setData", "/big", "1048575", "MaxRequest", "jute.maxbuffer")
		ok(t, c.Sync(ctx, "/"))
		select {
		case change := <-states:
			t.Errorf("the session became %v", change.To)
		default:
		}
	})
}

// TestSuiteChroot shows that no path of the servers gets through a namespace.
func TestSuiteChroot(t *testing.T) {
	w := newWorld(t, 1)
	plain := w.client(t)
	makeNode(t, plain, "/app", "root")
	byString, err := client.Connect(deadline(t), w.ConnectString()+w.root+"/app", client.Options{Logger: client.NoLog})
	ok(t, err)
	defer byString.Close(deadline(t))
	for name, c := range map[string]*client.Client{"connect string": byString, "namespace": plain.Namespace("/app")} {
		t.Run(name, func(t *testing.T) {
			ctx := deadline(t)
			if data, _, err := c.Get(ctx, "/"); err != nil || string(data) != "root" {
				t.Errorf("get / = %q, %v", data, err)
			}
			watch, err := c.AddWatch(ctx, "/", client.WatchRecursive)
			ok(t, err)
			path, err := c.Create(ctx, "/s-", nil, client.EphemeralSequential, nil)
			if err != nil || !strings.HasPrefix(path, "/s-") {
				t.Errorf("create = %q, %v", path, err)
			}
			if ev, err := watch.Next(ctx); err != nil || ev.Type != client.EventCreated || ev.Path != path {
				t.Errorf("event %v, %v", ev, err)
			}
			if _, there, err := plain.Exists(ctx, "/app"+path); err != nil || !there {
				t.Errorf("exists /app%s = %v, %v", path, there, err)
			}
			results, err := c.Multi(ctx, client.CreateOp("/m-", nil, client.PersistentSequential, nil))
			if err != nil || !strings.HasPrefix(results[0].Path, "/m-") {
				t.Errorf("multi = %+v, %v", results, err)
			}
			if got, err := c.Ephemerals(ctx, "/"); err != nil || !slices.Equal(got, []string{path}) {
				t.Errorf("ephemerals = %q, %v", got, err)
			}
			_, _, err = c.Get(ctx, "/none")
			failsWith(t, err, client.ErrNoNode, "getData /none:")
			if _, _, err := c.GetConfig(ctx); err != nil {
				t.Errorf("getConfig = %v", err)
			}
			ok(t, c.Delete(ctx, path, client.AnyVersion))
			ok(t, watch.Close(ctx))
		})
	}
}
