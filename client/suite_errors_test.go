package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/internal/trial"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
)

// TestSuiteErrors has each operation fail in each way that depends on nothing but
// the tree and the arguments. All these errors are certain, and name operation and
// path.
func TestSuiteErrors(t *testing.T) {
	inBothForms(t, func(t *testing.T, w *world, c api) {
		ctx := deadline(t)
		makeNode(t, c.Client, "/a", "")
		makeNode(t, c.Client, "/a/b", "")
		_, err := c.Create(ctx, "/e", nil, client.CreateOptions{Mode: client.Ephemeral})
		ok(t, err)
		_, err = w.Client(t, trial.Super).Create(ctx, "/locked", nil, client.CreateOptions{ACL: []client.ACL{{Perms: client.PermAdmin, ID: client.ID{Scheme: "digest", ID: "x:y"}}}})
		ok(t, err)
		make := func(path string, mode client.CreateMode, acl []client.ACL) error {
			_, err := c.Create(ctx, path, nil, client.CreateOptions{Mode: mode, ACL: acl})
			return err
		}
		ttl := func(mode client.CreateMode, d time.Duration) error {
			_, err := c.Create(ctx, "/t", nil, client.CreateOptions{Mode: mode, TTL: d})
			return err
		}
		get := func(path string) error { _, err := c.Get(ctx, path); return err }
		set := func(path string, version int32) error { _, err := c.Set(ctx, path, nil, version); return err }
		children := func(path string) error { _, err := c.Children(ctx, path); return err }
		getACL := func(path string) error { _, err := c.GetACL(ctx, path); return err }
		setACL := func(path string, acl []client.ACL, version int32) error {
			_, err := c.SetACL(ctx, path, acl, version)
			return err
		}
		exists := func(path string) error { _, err := c.Exists(ctx, path); return err }
		count := func(path string) error { _, err := c.CountDescendants(ctx, path); return err }
		getW := func(path string) error {
			node, err := c.GetW(ctx, path)
			if node.Watch != nil {
				t.Errorf("a watch of a get that failed")
			}
			return err
		}
		addWatch := func(path string, mode client.WatchMode) error { _, err := c.AddWatch(ctx, path, mode); return err }
		reconfig := func() error {
			_, err := c.Reconfig(ctx, client.Members{Leaving: "7"}, -1)
			return err
		}
		tests := []struct {
			err  error
			want error
			text string
		}{
			{make("/a", client.Persistent, nil), client.ErrNodeExists, "create /a: "},
			{make("/x/y", client.Persistent, nil), client.ErrNoNode, "create /x/y: "},
			{make("/e/f", client.Persistent, nil), client.ErrNoChildrenForEphemerals, "create /e/f: "},
			{make("/c", client.Persistent, []client.ACL{}), client.ErrInvalidACL, "create /c: "},
			{make("/c", client.Persistent, client.CreatorACL()), client.ErrInvalidACL, "create /c: "},
			{make("/c", client.Persistent, []client.ACL{{Perms: 1, ID: client.ID{Scheme: "no such", ID: "x"}}}), client.ErrInvalidACL, "create /c: "},
			{make("/locked/a", client.Persistent, nil), client.ErrNoAuth, "create /locked/a: "},
			{make("a", client.Persistent, nil), client.ErrBadArguments, "create a: "},
			{make("/a/", client.Persistent, nil), client.ErrBadArguments, "create /a/: "},
			{make("/a//b", client.Persistent, nil), client.ErrBadArguments, "create /a//b: "},
			{make("/a/../b", client.Persistent, nil), client.ErrBadArguments, "create /a/../b: "},
			{make("", client.Persistent, nil), client.ErrBadArguments, "create: "},
			{make("/a\x00", client.Persistent, nil), client.ErrBadArguments, "create "},
			{make("/c", 17, nil), client.ErrBadArguments, "create /c: "},
			{make("/c", client.PersistentTTL, nil), client.ErrBadArguments, "createTTL /c: "},
			{ttl(client.PersistentTTL, 0), client.ErrBadArguments, "createTTL /t: "},
			{ttl(client.PersistentTTL, -time.Second), client.ErrBadArguments, "createTTL /t: "},
			{ttl(client.PersistentTTL, (1<<40)*time.Millisecond), client.ErrBadArguments, "createTTL /t: "},
			{ttl(client.Ephemeral, time.Second), client.ErrBadArguments, "createTTL /t: "},
			{c.Delete(ctx, "/x", client.AnyVersion), client.ErrNoNode, "delete /x: "},
			{c.Delete(ctx, "/a", client.AnyVersion), client.ErrNotEmpty, "delete /a: "},
			{c.Delete(ctx, "/a/b", 7), client.ErrBadVersion, "delete /a/b: "},
			{c.Delete(ctx, "a", 7), client.ErrBadArguments, "delete a: "},
			{get("/x"), client.ErrNoNode, "getData /x: "},
			{get("/locked"), client.ErrNoAuth, "getData /locked: "},
			{get("/x/"), client.ErrBadArguments, "getData /x/: "},
			{getW("/x"), client.ErrNoNode, "getData /x: "},
			{set("/x", client.AnyVersion), client.ErrNoNode, "setData /x: "},
			{set("/a", 7), client.ErrBadVersion, "setData /a: "},
			{set("/locked", client.AnyVersion), client.ErrNoAuth, "setData /locked: "},
			{children("/x"), client.ErrNoNode, "getChildren2 /x: "},
			{children("/locked"), client.ErrNoAuth, "getChildren2 /locked: "},
			{getACL("/x"), client.ErrNoNode, "getACL /x: "},
			{setACL("/x", client.OpenACL(), client.AnyVersion), client.ErrNoNode, "setACL /x: "},
			{setACL("/a", client.OpenACL(), 7), client.ErrBadVersion, "setACL /a: "},
			{setACL("/a", nil, client.AnyVersion), client.ErrInvalidACL, "setACL /a: "},
			{setACL("/locked", client.OpenACL(), client.AnyVersion), client.ErrNoAuth, "setACL /locked: "},
			{exists("x"), client.ErrBadArguments, "exists x: "},
			{count("/x"), client.ErrNoNode, "getAllChildrenNumber /x: "},
			{addWatch("x", client.WatchPersistent), client.ErrBadArguments, "addWatch x: "},
			{c.CheckWatches(ctx, "/a", client.AnyWatches), client.ErrNoWatcher, "checkWatches /a: "},
			{c.RemoveWatches(ctx, "/a", client.AnyWatches), client.ErrNoWatcher, "removeWatches /a: "},
			{reconfig(), client.ErrReconfigDisabled, "reconfig: "},
		}
		for _, tt := range tests {
			failsWith(t, tt.err, tt.want, tt.text)
			if e, is := errors.AsType[*client.Error](tt.err); is && e.Err != tt.want {
				t.Errorf("%v: the sentinel is %v, want %v", tt.err, e.Err, tt.want)
			}
		}
		if found, err := c.Exists(ctx, "/c"); found.Exists || err != nil {
			t.Errorf("exists /c = %v, %v", found.Exists, err)
		}
	})
}

// TestSuiteAuthFailed ends a session by a scheme that the servers don't know.
func TestSuiteAuthFailed(t *testing.T) {
	inBothForms(t, func(t *testing.T, _ *world, c api) {
		ctx := deadline(t)
		states := c.Session().States(ctx)
		failsWith(t, c.AddAuth(ctx, "no such", "x"), client.ErrAuthFailed, "auth")
		ended(t, states, client.StateAuthFailed)
		_, err := c.Get(ctx, "/")
		failsWith(t, err, client.ErrAuthFailed, "getData /")
	})
}

// TestSuiteAmbiguous breaks the connection before and after an operation is done.
// The client can't tell the two apart, and says so of changes.
func TestSuiteAmbiguous(t *testing.T) {
	changes := map[string]struct {
		op client.OpCode
		do func(context.Context, api) error
	}{
		"create": {jute.OpCreate, func(ctx context.Context, c api) error {
			_, err := c.Create(ctx, "/new", nil, client.CreateOptions{})
			return err
		}},
		"setData": {jute.OpSetData, func(ctx context.Context, c api) error {
			_, err := c.Set(ctx, "/a", []byte("new"), client.AnyVersion)
			return err
		}},
		"delete": {jute.OpDelete, func(ctx context.Context, c api) error { return c.Delete(ctx, "/a", client.AnyVersion) }},
		"multi": {jute.OpMulti, func(ctx context.Context, c api) error {
			_, err := c.Multi(ctx, client.SetOp("/a", nil, client.AnyVersion))
			return err
		}},
		"setACL": {jute.OpSetACL, func(ctx context.Context, c api) error {
			_, err := c.SetACL(ctx, "/a", client.OpenACL(), client.AnyVersion)
			return err
		}},
	}
	reads := map[string]struct {
		op client.OpCode
		do func(context.Context, api) error
	}{
		"getData":      {jute.OpGetData, func(ctx context.Context, c api) error { _, err := c.Get(ctx, "/a"); return err }},
		"exists":       {jute.OpExists, func(ctx context.Context, c api) error { _, err := c.Exists(ctx, "/a"); return err }},
		"getChildren2": {jute.OpGetChildren2, func(ctx context.Context, c api) error { _, err := c.Children(ctx, "/a"); return err }},
		"sync":         {jute.OpSync, func(ctx context.Context, c api) error { return c.Sync(ctx, "/a") }},
	}
	inBothForms(t, func(t *testing.T, w *world, first api) {
		ctx := deadline(t)
		makeNode(t, first.Client, "/a", "")
		for _, after := range []bool{false, true} {
			arm := w.CutBefore
			if after {
				arm = w.CutAfter
			}
			for name, r := range reads {
				c := apiOf(t, w, first.async, zktest.Plain) // one that breaks often would make pauses
				cut := arm(zktest.Op(r.op))
				failsWith(t, r.do(ctx, c), client.ErrConnectionLoss, name+" /a: ")
				<-cut.Done()
			}
			for name, change := range changes {
				c := apiOf(t, w, first.async, zktest.Plain)
				cut := arm(zktest.Op(change.op))
				err := change.do(ctx, c)
				<-cut.Done()
				if !client.IsAmbiguous(err) || !errors.Is(err, client.ErrConnectionLoss) {
					t.Errorf("%s = %v", name, err)
				}
				if after && cut.Err() != nil && cut.Err() != client.ErrNoNode {
					t.Errorf("%s was done with %v", name, cut.Err())
				}
			}
			found, err := first.Exists(ctx, "/new")
			if found.Exists != after || err != nil {
				t.Errorf("after=%v: exists /new = %v, %v", after, found.Exists, err)
			}
		}
	})
}

// TestSuiteCanceled ends the contexts of operations: one that waits for a
// connection is surely not done, one that has been sent may be.
func TestSuiteCanceled(t *testing.T) {
	w := newWorld(t, 1)
	c := w.Client(t)
	makeNode(t, c, "/a", "")
	states := c.Session().States(t.Context())
	w.Stall()
	write := c.Async().Set("/a", []byte("sent"), client.AnyVersion)
	read := c.Async().Get("/a")
	gone, cancel := context.WithCancelCause(t.Context())
	why := errors.New("tired")
	cancel(why)
	_, err := read.Wait(gone)
	failsWith(t, err, why, "getData /a: ")
	_, err = write.Wait(gone)
	if !errors.Is(err, why) || !client.IsAmbiguous(err) {
		t.Errorf("set = %v", err)
	}
	w.Resume()
	if _, err := write.Wait(deadline(t)); err != nil {
		t.Errorf("set in the end = %v", err)
	}
	w.Refuse()
	w.CutConnections()
	ended(t, states, client.StateSuspended)
	waiting, stop := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, why)
	defer stop()
	_, err = c.Create(waiting, "/b", nil, client.CreateOptions{})
	failsWith(t, err, why, "create /b: ", w.Addr())
	w.Accept()
	if found, err := c.Exists(deadline(t), "/b"); found.Exists || err != nil {
		t.Errorf("exists /b = %v, %v", found.Exists, err)
	}
}
