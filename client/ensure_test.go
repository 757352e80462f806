package client_test

import (
	"context"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

func TestEnsurePathWhateverBreaks(t *testing.T) {
	everyBreak(t, func(b *breakage) { create(b.t, b.look, "/a") }, func(ctx context.Context, b *breakage) {
		must(b.t, b.c.EnsurePath(ctx, "/a/b/c", nil))
		found, err := b.look.Exists(ctx, "/a/b/c")
		if must(b.t, err); !found.Exists {
			b.t.Fatal("it does not exist")
		}
		if data, _ := b.data(ctx, "/a"); data != "/a" {
			b.t.Fatalf("what existed has changed: %q", data)
		}
	})
}

func TestCreateAllWithoutABreak(t *testing.T) {
	c := newWorld(t, 1).client(t)
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
		got, err := c.CreateAll(t.Context(), test.path, []byte("x"), test.mode, nil)
		if err != nil || got != test.want {
			t.Errorf("CreateAll(%s) = %s, %v", test.path, got, err)
		}
	}
	_, err := c.CreateAll(t.Context(), "/a/b/c", nil, client.Persistent, nil)
	mustBe(t, err, client.ErrNodeExists)
	_, err = c.CreateAll(t.Context(), "/a/b/d/e", nil, client.Persistent, nil)
	mustBe(t, err, client.ErrNoChildrenForEphemerals)
	_, err = c.CreateAll(t.Context(), "/a/b/d/e/f", nil, client.Persistent, nil)
	mustBe(t, err, client.ErrNoChildrenForEphemerals)
}

// The node itself is created at most once, and its parents need no luck.
func TestCreateAllWhateverBreaks(t *testing.T) {
	everyBreak(t, nil, func(ctx context.Context, b *breakage) {
		_, err := b.c.CreateAll(ctx, "/a/b/n-", nil, client.PersistentSequential, nil)
		if err != nil && !client.IsAmbiguous(err) {
			b.t.Fatal(err)
		}
		must(b.t, b.look.EnsurePath(ctx, "/a/b", nil))
		if n := len(b.children(ctx, "/a/b")); n > 1 || err == nil && n != 1 {
			b.t.Fatalf("%d nodes, error is %v", n, err)
		}
	})
}

func TestEnsurePathMakesTheRootOfANamespace(t *testing.T) {
	c := newWorld(t, 1).client(t)
	view := c.Namespace("/apps/one")
	must(t, view.EnsureContainer(t.Context(), "/a", nil))
	for _, path := range []string{"/apps", "/apps/one", "/apps/one/a"} {
		if found, err := c.Exists(t.Context(), path); err != nil || !found.Exists {
			t.Errorf("%s: %v, %v", path, found.Exists, err)
		}
	}
	other := c.Namespace("/apps/two")
	must(t, other.EnsurePath(t.Context(), "/", nil))
	_, err := other.Create(t.Context(), "/x", nil, client.CreateOptions{})
	must(t, err)
	must(t, c.EnsurePath(t.Context(), "/", nil))
	mustBe(t, c.EnsurePath(t.Context(), "a//b", nil), client.ErrBadArguments)
}

// The cost is what the documentation says: nothing is written where nothing is
// missing.
func TestEnsurePathOfWhatExistsWritesNothing(t *testing.T) {
	srv := newWorld(t, 1)
	c := srv.client(t)
	must(t, c.EnsurePath(t.Context(), "/a/b/c", nil))
	before := srv.Requests()
	must(t, c.EnsurePath(t.Context(), "/a/b/c", nil))
	if n := srv.Requests().Since(before).Of(jute.OpCreate, jute.OpCreate2); n != 0 {
		t.Errorf("it made %d creates", n)
	}
}

// Others create the same nodes and delete them.
func TestEnsurePathAmongOthers(t *testing.T) {
	srv := newWorld(t, 1)
	var work sync.WaitGroup
	for range 4 {
		c := srv.client(t)
		work.Go(func() {
			for range 50 {
				if err := c.EnsurePath(t.Context(), "/a/b/c/d", nil); err != nil {
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
	admin := srv.client(t, func(o *client.Options) {
		o.Auth = []client.Auth{{Scheme: "digest", Data: []byte("admin:secret")}}
	})
	_, err := admin.CreateAll(t.Context(), "/closed/a", nil, client.Persistent, client.CreatorACL())
	must(t, err)
	c := srv.client(t).Namespace("/closed")
	must(t, c.EnsurePath(t.Context(), "/a", nil)) // it exists: nothing is to be created
	err = c.EnsurePath(t.Context(), "/b/c", nil)
	mustBe(t, err, client.ErrNoAuth)
	if want := "/b"; !contains(err.Error(), " "+want+":") {
		t.Errorf("%q does not name %s", err, want)
	}
}
