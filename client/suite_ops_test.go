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
	"github.com/zkd-project/zkd/client/zktest"
)

// TestSuiteNodes goes through the life of a node.
func TestSuiteNodes(t *testing.T) {
	inBothForms(t, func(t *testing.T, _ *world, c api) {
		ctx := deadline(t)
		made2, err := c.Create(ctx, "/a", []byte("one"), client.CreateOptions{Stat: true})
		if err != nil || made2.Path != "/a" || made2.Stat.Czxid == 0 || made2.Stat.DataLength != 3 {
			t.Fatalf("create = %q %+v, %v", made2.Path, made2.Stat, err)
		}
		node, err := c.Get(ctx, "/a")
		if err != nil || string(node.Data) != "one" || node.Stat != made2.Stat {
			t.Errorf("get = %q %+v, %v; want %+v", node.Data, node.Stat, err, made2.Stat)
		}
		set, err := c.Set(ctx, "/a", []byte("two!"), made2.Stat.Version)
		if err != nil || set.Version != 1 || set.Mzxid <= made2.Stat.Mzxid || set.DataLength != 4 || set.Czxid != made2.Stat.Czxid {
			t.Errorf("set = %+v, %v", set, err)
		}
		if _, err := c.Create(ctx, "/a/b", nil, client.CreateOptions{}); err != nil {
			t.Error(err)
		}
		list, err := c.Children(ctx, "/a")
		if err != nil || !slices.Equal(list.Names, []string{"b"}) || list.Stat.NumChildren != 1 || list.Stat.Cversion != 1 {
			t.Errorf("children = %q %+v, %v", list.Names, list.Stat, err)
		}
		if found, err := c.Exists(ctx, "/a"); err != nil || !found.Exists || found.Stat != list.Stat {
			t.Errorf("exists = %v %+v, %v", found.Exists, found.Stat, err)
		}
		ok(t, c.Delete(ctx, "/a/b", 0))
		ok(t, c.Delete(ctx, "/a", client.AnyVersion))
		if found, err := c.Exists(ctx, "/a"); err != nil || found.Exists || found.Stat != (client.Stat{}) {
			t.Errorf("exists = %v %+v, %v", found.Exists, found.Stat, err)
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
			_, err := c.Create(ctx, name, data, client.CreateOptions{})
			ok(t, err)
			node, err := c.Get(ctx, name)
			if err != nil || len(node.Data) != 0 || (node.Data == nil) != (data == nil) || node.Stat.DataLength != 0 {
				t.Errorf("get %s = %#v, %v", name, node.Data, err)
			}
			_, err = c.Set(ctx, name, []byte("x"), client.AnyVersion)
			ok(t, err)
			_, err = c.Set(ctx, name, data, client.AnyVersion)
			ok(t, err)
			if node2, err := c.Get(ctx, name); err != nil || (node2.Data == nil) != (data == nil) {
				t.Errorf("get %s after a set = %#v, %v", name, node2.Data, err)
			}
		}
	})
}

func TestSuiteModes(t *testing.T) {
	inBothForms(t, func(t *testing.T, w *world, c api) {
		ctx := deadline(t)
		id := c.Session().ID()
		for _, mode := range []client.CreateMode{client.Persistent, client.Ephemeral, client.PersistentSequential,
			client.EphemeralSequential, client.Container, client.PersistentTTL, client.PersistentSequentialTTL} {
			want := fmt.Sprintf("/n%d-", mode)
			o := client.CreateOptions{Mode: mode, Stat: true}
			if mode.TTL() {
				o.TTL = time.Hour
			}
			made, err := c.Create(ctx, want, []byte("x"), o)
			path, stat := made.Path, made.Stat
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
			if found, err := c.Exists(ctx, path); err != nil || !found.Exists || found.Stat.EphemeralOwner != stat.EphemeralOwner {
				t.Errorf("exists %s = %v %+v, %v", path, found.Exists, found.Stat, err)
			}
		}
		first, err := c.Create(ctx, "/q", nil, client.CreateOptions{})
		ok(t, err)
		var paths []string
		for range 3 {
			p, err := c.Create(ctx, first.Path+"/", nil, client.CreateOptions{Mode: client.PersistentSequential})
			ok(t, err)
			paths = append(paths, p.Path)
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
		_, err := c.Create(ctx, "/ttl", nil, client.CreateOptions{Mode: client.PersistentTTL, TTL: time.Millisecond})
		ok(t, err)
		_, err = c.Create(ctx, "/box", nil, client.CreateOptions{Mode: client.Container})
		ok(t, err)
		for _, path := range []string{"/ttl", "/box"} {
			found, err := c.ExistsW(ctx, path)
			ok(t, err)
			if path == "/box" {
				_, err = c.Multi(ctx, client.CreateOp("/box/a", nil, client.CreateOptions{}), client.DeleteOp("/box/a", 0))
				ok(t, err)
			}
			// Either it is gone already, and the watch waits for its creation.
			found2, err := c.Exists(ctx, path)
			ok(t, err)
			if !found2.Exists {
				continue
			}
			if ev, err := found.Watch.Next(ctx); err != nil || ev.Type != client.EventDeleted {
				t.Errorf("%s: event %v, %v", path, ev, err)
			}
		}
	}, zktest.CleanUp())
}

func TestSuiteACL(t *testing.T) {
	inBothForms(t, func(t *testing.T, w *world, c api) {
		ctx := deadline(t)
		ok(t, c.AddAuth(ctx, "digest", "ann:secret"))
		_, err := c.Create(ctx, "/own", []byte("x"), client.CreateOptions{ACL: client.CreatorACL()})
		ok(t, err)
		access, err := c.GetACL(ctx, "/own")
		if err != nil || len(access.ACL) != 1 || access.ACL[0].Perms != client.PermAll || access.ACL[0].ID.Scheme != "digest" || !strings.HasPrefix(access.ACL[0].ID.ID, "ann:") {
			t.Errorf("getACL = %v, %v", access.ACL, err)
		}
		stranger := w.Client(t)
		_, err = stranger.Get(ctx, "/own")
		failsWith(t, err, client.ErrNoAuth, "getData", "/own")
		_, err = stranger.Set(ctx, "/own", nil, client.AnyVersion)
		failsWith(t, err, client.ErrNoAuth, "setData", "/own")
		_, err = c.SetACL(ctx, "/own", client.ReadACL(), access.Stat.Aversion+1)
		failsWith(t, err, client.ErrBadVersion, "setACL", "/own")
		after, err := c.SetACL(ctx, "/own", append(client.ReadACL(), access.ACL...), access.Stat.Aversion)
		if err != nil || after.Aversion != access.Stat.Aversion+1 {
			t.Errorf("setACL = %+v, %v", after, err)
		}
		if node, err := stranger.Get(ctx, "/own"); err != nil || string(node.Data) != "x" {
			t.Errorf("get = %q, %v", node.Data, err)
		}
		// Whom the servers take it for outlives the connection.
		states := c.Session().States(ctx)
		id := c.Session().ID()
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
			client.CreateOp("/m", []byte("a"), client.CreateOptions{}),
			client.CreateOp("/m/s-", nil, client.CreateOptions{Mode: client.PersistentSequential}),
			client.CreateOp("/box", nil, client.CreateOptions{Mode: client.Container}),
			client.CreateOp("/ttl", nil, client.CreateOptions{Mode: client.PersistentTTL, TTL: time.Hour}),
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
		if node, err := c.Get(ctx, "/m"); err != nil || string(node.Data) != "b" || node.Stat.Version != 1 {
			t.Errorf("after a multi that failed: %q %+v, %v", node.Data, node.Stat, err)
		}
		if results, err := c.Multi(ctx); err != nil || len(results) != 0 {
			t.Errorf("a multi of nothing = %v, %v", results, err)
		}
	})
}

// TestSuiteOperations checks the operations of extensions, which servers of Apache refuse.
func TestSuiteOperations(t *testing.T) {
	inBothForms(t, func(t *testing.T, _ *world, c api) {
		ctx := deadline(t)
		_, err := c.Multi(ctx, client.CheckAbsentOp("/v"), client.CreateOrSetOp("/v", []byte("1"), client.AnyVersion, client.CreateOptions{}))
		if errors.Is(err, client.ErrUnimplemented) { // and the connection is still there
			_, err = c.Create(ctx, "/v", nil, client.CreateOptions{})
			ok(t, err)
			return
		}
		ok(t, err)
		_, err = c.Multi(ctx, client.SetOp("/v", nil, client.AnyVersion), client.CheckAbsentOp("/v"))
		failsWith(t, err, client.ErrNodeExists, "operation 1")
		results, err := c.Multi(ctx, client.CreateOrSetOp("/v", []byte("2"), 0, client.CreateOptions{}), client.CreateOrSetOp("/e", nil, 7, client.CreateOptions{Mode: client.Ephemeral}))
		ok(t, err)
		if set, created := results[0], results[1]; set.Path != "" || set.Stat.Version != 1 || created.Path != "/e" || created.Stat.EphemeralOwner == 0 {
			t.Errorf("create or set: %+v", results)
		}
		_, err = c.Multi(ctx, client.CreateOrSetOp("/v", nil, 0, client.CreateOptions{}))
		failsWith(t, err, client.ErrBadVersion, "/v")

		for _, path := range []string{"/d", "/d/a", "/d/a/b", "/d/c"} {
			_, err = c.Create(ctx, path, nil, client.CreateOptions{})
			ok(t, err)
		}
		_, err = c.Multi(ctx, client.DeleteOp("/v", client.AnyVersion), client.DeleteTreeOp("/d", client.AnyVersion, 3))
		failsWith(t, err, client.ErrNotEmpty, "operation 1", "/d")
		results, err = c.Multi(ctx, client.DeleteOp("/v", client.AnyVersion), client.DeleteTreeOp("/d", 0, 0), client.CreateOp("/d", nil, client.CreateOptions{}))
		ok(t, err)
		if len(results) != 3 || results[1].Deleted != 4 || results[2].Path != "/d" {
			t.Errorf("delete a tree: %+v", results)
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
			_, err := c.Create(ctx, p, nil, client.CreateOptions{Mode: client.Ephemeral})
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

// TestSuiteLargeListing lists a node whose children take 3 MiB, which is more than many clients
// accept as a reply: at once where the servers answer that, and otherwise in pages. A client
// refuses a reply that is longer than its options say.
func TestSuiteLargeListing(t *testing.T) {
	w := newWorld(t, 1)
	c := w.Client(t)
	ctx := deadline(t)
	const nodes, perMulti = 14_000, 1000
	name := strings.Repeat("n", 220)
	create := func(from, to int) {
		var multis []*client.Future[[]client.OpResult]
		for i := from; i < to; i += perMulti {
			var ops []client.Op
			for j := range perMulti {
				ops = append(ops, client.CreateOp(fmt.Sprintf("/%s%05d", name, i+j), nil, client.CreateOptions{}))
			}
			multis = append(multis, c.Async().Multi(ops))
		}
		for _, m := range multis {
			_, err := m.Wait(ctx)
			ok(t, err)
		}
	}
	create(0, 4*perMulti)
	small := w.Client(t, func(o *client.Options) { o.MaxReply = 1 << 19 })
	_, err := small.Children(ctx, "/")
	failsWith(t, err, client.ErrConnectionLoss, "getChildren", "524288", "MaxReply")
	list, err := c.Children(ctx, "/")
	ok(t, err)
	if len(list.Names) != 4*perMulti {
		t.Errorf("%d children", len(list.Names))
	}

	create(4*perMulti, nodes)
	list, err = c.Children(ctx, "/")
	names := list.Names
	if errors.Is(err, client.ErrMarshalling) {
		failsWith(t, err, client.ErrMarshalling, "getChildren", "ChildrenPage")
		page := client.Page{More: true}
		for page.More {
			o := client.PageOptions{}
			if len(names) > 0 {
				o.After = names[len(names)-1]
			}
			page, err = c.ChildrenPage(ctx, "/", o)
			ok(t, err)
			for _, child := range page.Children {
				names = append(names, child.Name)
			}
			list.Stat = page.Stat
		}
	}
	ok(t, err)
	if len(names) != nodes || list.Stat.NumChildren != nodes {
		t.Errorf("%d children, stat %+v", len(names), list.Stat)
	}
}

// TestSuiteLargeRequests sends what just fits, and refuses what does not without
// troubling the servers.
func TestSuiteLargeRequests(t *testing.T) {
	inBothForms(t, func(t *testing.T, _ *world, c api) {
		ctx := deadline(t)
		states := c.Session().States(ctx)
		big := bytes.Repeat([]byte("x"), 1_000_000)
		_, err := c.Create(ctx, "/big", big, client.CreateOptions{})
		ok(t, err)
		if node, err := c.Get(ctx, "/big"); err != nil || !bytes.Equal(node.Data, big) {
			t.Errorf("get: %d bytes, %v", len(node.Data), err)
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
	plain := w.Client(t)
	makeNode(t, plain, "/app", "root")
	byString, err := client.Connect(deadline(t), w.ConnectString()+w.Root+"/app", client.Options{Logger: client.NoLog})
	ok(t, err)
	defer byString.Close(deadline(t))
	for name, c := range map[string]*client.Client{"connect string": byString, "namespace": plain.Namespace("/app")} {
		t.Run(name, func(t *testing.T) {
			ctx := deadline(t)
			if node, err := c.Get(ctx, "/"); err != nil || string(node.Data) != "root" {
				t.Errorf("get / = %q, %v", node.Data, err)
			}
			watch, err := c.AddWatch(ctx, "/", client.WatchRecursive)
			ok(t, err)
			made, err := c.Create(ctx, "/s-", nil, client.CreateOptions{Mode: client.EphemeralSequential})
			if err != nil || !strings.HasPrefix(made.Path, "/s-") {
				t.Errorf("create = %q, %v", made.Path, err)
			}
			if ev, err := watch.Next(ctx); err != nil || ev.Type != client.EventCreated || ev.Path != made.Path {
				t.Errorf("event %v, %v", ev, err)
			}
			if found, err := plain.Exists(ctx, "/app"+made.Path); err != nil || !found.Exists {
				t.Errorf("exists /app%s = %v, %v", made.Path, found.Exists, err)
			}
			results, err := c.Multi(ctx, client.CreateOp("/m-", nil, client.CreateOptions{Mode: client.PersistentSequential}))
			if err != nil || !strings.HasPrefix(results[0].Path, "/m-") {
				t.Errorf("multi = %+v, %v", results, err)
			}
			if got, err := c.Session().Ephemerals(ctx, "/"); err != nil || !slices.Equal(got, []string{made.Path}) {
				t.Errorf("ephemerals = %q, %v", got, err)
			}
			_, err = c.Get(ctx, "/none")
			failsWith(t, err, client.ErrNoNode, "getData /none:")
			if _, err := c.Unrooted().Get(ctx, client.ConfigPath); err != nil {
				t.Errorf("getConfig = %v", err)
			}
			ok(t, c.Delete(ctx, made.Path, client.AnyVersion))
			ok(t, watch.Close(ctx))
		})
	}
}
