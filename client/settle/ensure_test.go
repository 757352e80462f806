package settle_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/jute"
)

func TestEnsurePathWhateverBreaks(t *testing.T) {
	everyBreak(t, func(b *breakage) { create(b.T, b.Look, "/a") }, func(ctx context.Context, b *breakage) {
		must(b.T, settle.Ensure(ctx, b.C, "/a/b/c", client.CreateOptions{}))
		found, err := b.Look.Exists(ctx, "/a/b/c")
		if must(b.T, err); !found.Exists {
			b.T.Fatal("it does not exist")
		}
		if data, _ := b.Data(ctx, "/a"); data != "/a" {
			b.T.Fatalf("what existed has changed: %q", data)
		}
	})
}

func TestCreateAllWithoutABreak(t *testing.T) {
	c := newWorld(t, 1).Client(t)
	tests := []struct {
		path string
		mode client.CreateMode
		want string
	}{
		{"/a/b/c", client.Persistent, "/a/b/c"},
		{"/a/b/d", client.Ephemeral, "/a/b/d"},
		{"/q/", client.PersistentSequential, "/q/0000000000"},
		{"/q/n-", client.EphemeralSequential, "/q/n-0000000001"},
		{"/top", client.Persistent, "/top"},
	}
	for _, test := range tests {
		made, err := settle.CreateAll(t.Context(), c, test.path, []byte("x"), client.CreateOptions{Mode: test.mode})
		if err != nil || made.Path != test.want {
			t.Errorf("CreateAll(%s) = %s, %v", test.path, made.Path, err)
		}
	}
	_, err := settle.CreateAll(t.Context(), c, "/a/b/c", nil, client.CreateOptions{})
	mustBe(t, err, client.ErrNodeExists)
	_, err = settle.CreateAll(t.Context(), c, "/a/b/d/e", nil, client.CreateOptions{})
	mustBe(t, err, client.ErrNoChildrenForEphemerals)
	_, err = settle.CreateAll(t.Context(), c, "/a/b/d/e/f", nil, client.CreateOptions{})
	mustBe(t, err, client.ErrNoChildrenForEphemerals)
}

// The node itself is created at most once, and its parents need no luck.
func TestCreateAllWhateverBreaks(t *testing.T) {
	everyBreak(t, nil, func(ctx context.Context, b *breakage) {
		_, err := settle.CreateAll(ctx, b.C, "/a/b/n-", nil, client.CreateOptions{Mode: client.PersistentSequential})
		if err != nil && !client.IsAmbiguous(err) {
			b.T.Fatal(err)
		}
		must(b.T, settle.Ensure(ctx, b.Look, "/a/b", client.CreateOptions{}))
		if n := len(b.Children(ctx, "/a/b")); n > 1 || err == nil && n != 1 {
			b.T.Fatalf("%d nodes, error is %v", n, err)
		}
	})
}

// Nodes above are containers, and the node itself is created as by Create.
func TestCreateInContainer(t *testing.T) {
	srv := newWorld(t, 1)
	c := srv.Client(t)
	before := srv.Requests()
	_, err := settle.CreateInContainer(t.Context(), c, "/a/b/c", []byte("x"), settle.CreateOptions{})
	must(t, err)
	if n := srv.Requests().Since(before).Of(jute.OpCreateContainer); n < 2 {
		t.Errorf("it sent %d creates of containers, want 2 at least", n)
	}
	node, err := c.Get(t.Context(), "/a/b/c")
	if string(node.Data) != "x" || err != nil {
		t.Errorf("the node has %q, %v", node.Data, err)
	}
	before = srv.Requests()
	_, err = settle.CreateInContainer(t.Context(), c, "/a/b/c", []byte("y"), settle.CreateOptions{})
	mustBe(t, err, client.ErrNodeExists)
	if n := srv.Requests().Since(before).Of(jute.OpCreateContainer); n != 0 {
		t.Errorf("it sent %d creates of containers though the parent exists", n)
	}
}

func TestEnsurePathMakesTheRootOfANamespace(t *testing.T) {
	c := newWorld(t, 1).Client(t)
	view := c.Namespace("/apps/one")
	must(t, settle.Ensure(t.Context(), view, "/a", client.CreateOptions{Mode: client.Container}))
	for _, path := range []string{"/apps", "/apps/one", "/apps/one/a"} {
		if found, err := c.Exists(t.Context(), path); err != nil || !found.Exists {
			t.Errorf("%s: %v, %v", path, found.Exists, err)
		}
	}
	other := c.Namespace("/apps/two")
	must(t, settle.Ensure(t.Context(), other, "/", client.CreateOptions{}))
	_, err := other.Create(t.Context(), "/x", nil, client.CreateOptions{})
	must(t, err)
	must(t, settle.Ensure(t.Context(), c, "/", client.CreateOptions{}))
	mustBe(t, settle.Ensure(t.Context(), c, "a//b", client.CreateOptions{}), client.ErrBadArguments)
}

// The cost is what the documentation says: nothing is written where nothing is
// missing.
func TestEnsurePathOfWhatExistsWritesNothing(t *testing.T) {
	srv := newWorld(t, 1)
	c := srv.Client(t)
	must(t, settle.Ensure(t.Context(), c, "/a/b/c", client.CreateOptions{}))
	before := srv.Requests()
	must(t, settle.Ensure(t.Context(), c, "/a/b/c", client.CreateOptions{}))
	if n := srv.Requests().Since(before).Of(jute.OpCreate, jute.OpCreate2); n != 0 {
		t.Errorf("it made %d creates", n)
	}
}

// Others create the same nodes and delete them.
func TestEnsurePathAmongOthers(t *testing.T) {
	srv := newWorld(t, 1)
	var work sync.WaitGroup
	for range 4 {
		c := srv.Client(t)
		work.Go(func() {
			for range 50 {
				if err := settle.Ensure(t.Context(), c, "/a/b/c/d", client.CreateOptions{}); err != nil {
					t.Error(err)
				}
				c.Delete(t.Context(), "/a/b/c/d", client.AnyVersion) // somebody else may have
			}
		})
	}
	work.Wait()
}

func TestEnsurePathWithoutPermission(t *testing.T) {
	srv := newWorld(t, 1)
	admin := srv.Client(t, func(o *client.Options) {
		o.Auth = []client.Auth{{Scheme: "digest", Data: []byte("admin:secret")}}
	})
	_, err := settle.CreateAll(t.Context(), admin, "/closed/a", nil, client.CreateOptions{ACL: client.CreatorACL()})
	must(t, err)
	c := srv.Client(t).Namespace("/closed")
	must(t, settle.Ensure(t.Context(), c, "/a", client.CreateOptions{})) // it exists: nothing is to be created
	err = settle.Ensure(t.Context(), c, "/b/c", client.CreateOptions{})
	mustBe(t, err, client.ErrNoAuth)
	if want := "/b"; !strings.Contains(err.Error(), " "+want+":") {
		t.Errorf("%q does not name %s", err, want)
	}
}
