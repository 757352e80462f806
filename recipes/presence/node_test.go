package presence_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/presence"
)

// start starts a Node and waits until its node is there.
func start(w *trial.World, c *client.Client, path, data string, o presence.NodeOptions) *presence.Node {
	w.Helper()
	n := launch(w, c, path, data, o)
	w.Must(n.WaitThere(w.Ctx))
	return n
}

// launch starts a Node.
func launch(w *trial.World, c *client.Client, path, data string, o presence.NodeOptions) *presence.Node {
	w.Helper()
	n, err := presence.NewNode(c, path, o)
	w.Must(err)
	w.Must(n.Start([]byte(data)))
	w.Cleanup(func() { _ = n.Close(context.WithoutCancel(w.Ctx)) })
	return n
}

// awaitEnd waits until the Node has ended, and returns why.
func awaitEnd(w *trial.World, n *presence.Node) error {
	w.Helper()
	select {
	case <-n.Done():
	case <-w.Ctx.Done():
		w.Fatal("the Node does not end")
	}
	return n.Err()
}

// read returns a node's data, and its stat.
func read(w *trial.World, path string) (string, client.Stat) {
	w.Helper()
	w.Must(w.Look.Sync(w.Ctx, path))
	node, err := w.Look.Get(w.Ctx, path)
	w.Must(err)
	return string(node.Data), node.Stat
}

// awaitAnother waits until there is another node at path than the one created at that
// zxid.
func awaitAnother(w *trial.World, path string, than client.Zxid) client.Stat {
	w.Helper()
	for v, err := range typed.New(w.Look, path, typed.String{}).Follow(w.Ctx) {
		w.Must(err)
		if v.Exists && v.Stat.Czxid != than {
			return v.Stat
		}
	}
	panic("unreachable")
}

var mustBe = trial.MustBe

// awaitTrace waits until the last line has been recorded n times, and compares all.
func awaitTrace(w *trial.World, rec *zktest.Recording, want ...string) {
	w.Helper()
	last := want[len(want)-1]
	w.Must(rec.Await(w.Ctx, last, func(r zktest.Traced) bool {
		r.Path = strings.TrimPrefix(r.Path, w.Dir())
		return r.String() == last
	}))
	if got := w.Trace(rec); !slices.Equal(got, want) {
		w.Errorf("trace is\n%q, want\n%q", got, want)
	}
}

// What a Node costs: two requests to begin with, one for each change of its data,
// which wakes nobody here, and one to end. It does not poll.
func TestNodeTrace(t *testing.T) {
	w := trial.New(t)
	w.Must(settle.Ensure(w.Ctx, w.Look, "/d", client.CreateOptions{}))
	rec := w.Record()
	n := start(w, w.C, "/d/a", "1", presence.NodeOptions{})
	awaitTrace(w, rec, "create2 /d/a", "getChildren2 /d/a watch")
	w.Must(n.SetData(w.Ctx, []byte("2")))
	w.Must(n.SetData(w.Ctx, []byte("3")))
	awaitTrace(w, rec, "setData /d/a", "setData /d/a")

	_, stat := read(w, "/d/a")
	w.Must(w.Look.Delete(w.Ctx, "/d/a", client.AnyVersion))
	awaitAnother(w, "/d/a", stat.Czxid)
	awaitTrace(w, rec, "event NodeDeleted /d/a", "create2 /d/a", "getChildren2 /d/a watch")

	w.Must(n.Close(w.Ctx))
	awaitTrace(w, rec, "delete /d/a", "event NodeDeleted /d/a")
	if got := w.Children("/d"); len(got) != 0 {
		t.Errorf("there is %q after Close", got)
	}
}

func TestNodeTraceOfMissingParents(t *testing.T) {
	w := trial.New(t)
	rec := w.Record()
	start(w, w.C, "/d/a", "1", presence.NodeOptions{Sequential: true})
	w.Must(rec.Await(w.Ctx, "watch", func(r zktest.Traced) bool { return r.Watch }))
	got := w.Trace(rec)
	want := []string{"create2 /d/_c_GUID-a", "createContainer /d", "create2 /d/_c_GUID-a", "getChildren2 /d/_c_GUID-a# watch"}
	if got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "exists") || s == "createContainer " }); !slices.Equal(got, want) {
		t.Errorf("trace is\n%q, want\n%q", got, want)
	}
}

// Each kind of name comes back after the node was deleted and after the session has
// ended, under the same name and with the newest data.
func TestNodeComesBack(t *testing.T) {
	for name, o := range map[string]presence.NodeOptions{
		"fixed": {}, "protected": {Protected: true}, "sequential": {Sequential: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := trial.New(t)
			c := w.Proxy.Client(t, func(o *client.Options) { o.RenewSession = true }).Namespace(w.Dir())
			n := start(w, c, "/d/a", "1", o)
			path := n.State().Path
			w.Must(n.SetData(w.Ctx, []byte("2")))

			_, stat := read(w, path)
			w.Must(w.Look.Delete(w.Ctx, path, client.AnyVersion))
			stat = awaitAnother(w, path, stat.Czxid)
			if data, _ := read(w, path); data != "2" {
				t.Errorf("after deletion the data is %q", data)
			}

			id := c.Session().ID()
			w.Proxy.ExpireSession(id)
			awaitAnother(w, path, stat.Czxid)
			data, stat := read(w, path)
			if data != "2" || stat.EphemeralOwner == id {
				t.Errorf("after expiry the data is %q, the owner %v", data, stat.EphemeralOwner)
			}
			w.Must(n.SetData(w.Ctx, []byte("3")))
			if data, _ := read(w, path); data != "3" {
				t.Errorf("the data is %q", data)
			}
			if got := w.Children("/d"); len(got) != 1 {
				t.Errorf("nodes are %q", got)
			}
			w.Must(n.Close(w.Ctx))
			if got := w.Children("/d"); len(got) != 0 {
				t.Errorf("after Close nodes are %q", got)
			}
		})
	}
}

func TestNodeEndsWithTheSession(t *testing.T) {
	w := trial.New(t)
	n := start(w, w.C, "/a", "", presence.NodeOptions{})
	id := w.C.Session().ID()
	w.Proxy.ExpireSession(id)
	err := awaitEnd(w, n)
	mustBe(t, err, recipes.ErrLost)
	mustBe(t, err, client.ErrSessionExpired)
	mustBe(t, n.WaitThere(w.Ctx), recipes.ErrLost)
	mustBe(t, n.SetData(w.Ctx, nil), recipes.ErrLost)
	mustBe(t, n.Post(nil), recipes.ErrLost)
	w.Must(n.Close(w.Ctx))
}

func TestNodeEndIfDeleted(t *testing.T) {
	w := trial.New(t)
	n := start(w, w.C, "/a", "", presence.NodeOptions{EndIfDeleted: true})
	w.Must(w.Look.Delete(w.Ctx, "/a", client.AnyVersion))
	mustBe(t, awaitEnd(w, n), recipes.ErrLost)
	if got := w.Children("/"); len(got) != 0 {
		t.Errorf("nodes are %q", got)
	}
	w.Must(n.Close(w.Ctx))
}

// The end of the session is no deletion.
func TestNodeEndIfDeletedComesBack(t *testing.T) {
	w := trial.New(t)
	c := w.Proxy.Client(t, func(o *client.Options) { o.RenewSession = true }).Namespace(w.Dir())
	start(w, c, "/a", "", presence.NodeOptions{EndIfDeleted: true})
	_, stat := read(w, "/a")
	w.Proxy.ExpireSession(stat.EphemeralOwner)
	awaitAnother(w, "/a", stat.Czxid)
}

// What happens to the states that one follows.
func TestNodeFollow(t *testing.T) {
	w := trial.New(t)
	theirs := w.Other()
	_, err := theirs.Create(w.Ctx, "/a", nil, client.CreateOptions{Mode: client.Ephemeral})
	w.Must(err)
	n := launch(w, w.C, "/a", "", presence.NodeOptions{Patient: true})
	var last error
	for s, err := range n.Follow(w.Ctx) {
		switch {
		case err != nil:
			last = err
		case errors.Is(s.Err, client.ErrNodeExists):
			w.Must(theirs.Delete(w.Ctx, "/a", client.AnyVersion))
		case s.There:
			if _, stat := read(w, "/a"); stat.Czxid != s.Zxid || s.Path != "/a" {
				t.Errorf("state is %+v", s)
			}
			go func() { _ = n.Close(w.Ctx) }()
		}
	}
	mustBe(t, last, recipes.ErrClosed)
	ctx, cancel := context.WithCancel(w.Ctx)
	cancel()
	n = launch(w, w.C, "/b", "", presence.NodeOptions{})
	for _, err = range n.Follow(ctx) {
	}
	mustBe(t, err, context.Canceled)
}

// A node of somebody else's is left alone.
func TestNodeSomebodyElsesNode(t *testing.T) {
	w := trial.New(t)
	theirs := w.Other()
	_, err := theirs.Create(w.Ctx, "/a", []byte("theirs"), client.CreateOptions{Mode: client.Ephemeral})
	w.Must(err)
	n := launch(w, w.C, "/a", "ours", presence.NodeOptions{})
	err = awaitEnd(w, n)
	mustBe(t, err, client.ErrNodeExists)
	mustBe(t, n.WaitThere(w.Ctx), client.ErrNodeExists)
	w.Must(n.Close(w.Ctx))

	n = launch(w, w.C, "/a", "ours", presence.NodeOptions{Patient: true})
	if data, _ := read(w, "/a"); data != "theirs" {
		t.Errorf("data is %q", data)
	}
	w.Must(theirs.Close(w.Ctx))
	w.Must(n.WaitThere(w.Ctx))
	if data, _ := read(w, "/a"); data != "ours" {
		t.Errorf("data is %q", data)
	}

	_, err = w.Look.Create(w.Ctx, "/p", nil, client.CreateOptions{})
	w.Must(err)
	n = launch(w, w.C, "/p", "", presence.NodeOptions{Patient: true})
	mustBe(t, awaitEnd(w, n), recipes.ErrLayout)
	if got := w.Children("/"); !slices.Equal(got, []string{"a", "p"}) {
		t.Errorf("nodes are %q", got)
	}
}

// Somebody has another node at the path by the time that ours was deleted.
func TestNodeReplacedByAnother(t *testing.T) {
	w := trial.New(t)
	n := start(w, w.C, "/a", "ours", presence.NodeOptions{})
	_, err := w.Look.Multi(w.Ctx, client.DeleteOp("/a", client.AnyVersion), client.CreateOp("/a", []byte("theirs"), client.CreateOptions{Mode: client.Ephemeral}))
	w.Must(err)
	mustBe(t, awaitEnd(w, n), client.ErrNodeExists)
	w.Must(n.Close(w.Ctx))
	if data, _ := read(w, "/a"); data != "theirs" {
		t.Errorf("data is %q", data)
	}
}

// Somebody has changed the data: the next SetData is for the node as it is.
func TestNodeDataChangedByAnother(t *testing.T) {
	w := trial.New(t)
	n := start(w, w.C, "/a", "1", presence.NodeOptions{})
	_, err := w.Look.Set(w.Ctx, "/a", []byte("theirs"), client.AnyVersion)
	w.Must(err)
	w.Must(n.SetData(w.Ctx, []byte("2")))
	if data, stat := read(w, "/a"); data != "2" || stat.Version != 2 {
		t.Errorf("data is %q, version %d", data, stat.Version)
	}
	w.Must(n.Close(w.Ctx))
}

// Data is set, the connection breaks, and while it is down newer data is set: the
// older one is not written again.
func TestNodeOlderDataIsNotRepeated(t *testing.T) {
	for when, cut := range map[string]func(p *zktest.Proxy, m zktest.Match) *zktest.Cut{
		"before": (*zktest.Proxy).CutBefore, "after": (*zktest.Proxy).CutAfter,
	} {
		t.Run(when, func(t *testing.T) {
			w := trial.New(t)
			n := start(w, w.C, "/a", "1", presence.NodeOptions{})
			broken := cut(w.Proxy, zktest.Op(jute.OpSetData))
			w.Proxy.Refuse()
			set := make(chan error, 2)
			go func() { set <- n.SetData(w.Ctx, []byte("2")) }()
			<-broken.Done()
			ended, cancel := context.WithCancel(w.Ctx)
			cancel()
			mustBe(t, n.SetData(ended, []byte("3")), context.Canceled) // wanted nevertheless
			go func() { set <- n.SetData(w.Ctx, []byte("4")) }()
			mustBe(t, n.SetData(ended, []byte("5")), context.Canceled)
			w.Proxy.Accept()
			w.Must(<-set)
			w.Must(<-set)
			data, stat := read(w, "/a")
			want := int32(1) // what was swallowed is not sent again
			if when == "after" {
				want = 2
			}
			if (data != "5" && data != "4") || stat.Version != want {
				t.Errorf("data is %q, version %d, want version %d", data, stat.Version, want)
			}
		})
	}
}

func TestNodeBadUse(t *testing.T) {
	w := trial.New(t)
	for _, path := range []string{"", "/", "a", "/a/", "/a//b", "/a/.."} {
		if _, err := presence.NewNode(w.C, path, presence.NodeOptions{}); err == nil || !strings.Contains(err.Error(), "path") {
			t.Errorf("New(%q) = %v", path, err)
		}
	}
	n, err := presence.NewNode(w.C, "/a", presence.NodeOptions{})
	w.Must(err)
	if err := n.SetData(w.Ctx, nil); err == nil || !strings.Contains(err.Error(), "not started") {
		t.Errorf("SetData before Start: %v", err)
	}
	w.Must(n.Start(nil))
	if err := n.Start(nil); err == nil || !strings.Contains(err.Error(), "started already") {
		t.Errorf("second Start: %v", err)
	}
	w.Must(n.Close(w.Ctx))
	w.Must(n.Close(w.Ctx))
	mustBe(t, n.Start(nil), recipes.ErrClosed)
	mustBe(t, n.SetData(w.Ctx, nil), recipes.ErrClosed)
	mustBe(t, n.Post(nil), recipes.ErrClosed)
	mustBe(t, n.WaitThere(w.Ctx), recipes.ErrClosed)
	mustBe(t, n.Err(), recipes.ErrClosed)

	n, err = presence.NewNode(w.C, "/a", presence.NodeOptions{})
	w.Must(err)
	w.Must(n.Close(w.Ctx)) // never started
	mustBe(t, n.Start(nil), recipes.ErrClosed)
	if got := w.Children("/"); len(got) != 0 {
		t.Errorf("nodes are %q", got)
	}
}

// ACLs that forbid are clear errors, and leave nothing behind.
func TestNodeACLs(t *testing.T) {
	w := trial.New(t)
	_, err := w.Look.Create(w.Ctx, "/closed", nil, client.CreateOptions{ACL: client.ReadACL()})
	w.Must(err)
	n := launch(w, w.C, "/closed/a", "", presence.NodeOptions{})
	mustBe(t, awaitEnd(w, n), client.ErrNoAuth)

	n = launch(w, w.C, "/blind", "", presence.NodeOptions{ACL: []client.ACL{client.DigestACL(client.PermAll, "ann", "pw")}})
	mustBe(t, awaitEnd(w, n), client.ErrNoAuth)
	w.Must(n.Close(w.Ctx))
	mustBe(t, awaitEnd(w, n), client.ErrNoAuth)
	if got := w.Children("/"); !slices.Equal(got, []string{"closed"}) {
		t.Errorf("nodes are %q", got)
	}

	n = start(w, w.C, "/fixed", "1", presence.NodeOptions{ACL: client.ReadACL()})
	mustBe(t, n.SetData(w.Ctx, []byte("2")), client.ErrNoAuth)
	_, stat := read(w, "/fixed")
	w.Must(w.Look.Delete(w.Ctx, "/fixed", client.AnyVersion))
	awaitAnother(w, "/fixed", stat.Czxid)
	if data, _ := read(w, "/fixed"); data != "1" {
		t.Errorf("data that was refused is there: %q", data)
	}

	w.Must(settle.Ensure(w.Ctx, w.Look, "/d", client.CreateOptions{}))
	n = start(w, w.C, "/d/a", "", presence.NodeOptions{})
	_, err = w.Look.SetACL(w.Ctx, "/d", client.ReadACL(), client.AnyVersion)
	w.Must(err)
	mustBe(t, n.Close(w.Ctx), client.ErrNoAuth)
}

// A Close whose context ends continues in the background.
func TestNodeCloseInTheBackground(t *testing.T) {
	w := trial.New(t)
	n := start(w, w.C, "/d/a", "", presence.NodeOptions{})
	w.Proxy.Refuse()
	w.Proxy.CutConnections()
	ctx, cancel := context.WithCancel(w.Ctx)
	cancel()
	mustBe(t, n.Close(ctx), context.Canceled)
	w.Proxy.Accept()
	w.AwaitChildren("/d", 0)
	mustBe(t, awaitEnd(w, n), recipes.ErrClosed)
	w.Must(n.Close(w.Ctx))
}

// A client that never gets a connection doesn't keep Close.
func TestNodeCloseWithoutConnection(t *testing.T) {
	w := trial.New(t)
	p := zktest.NewProxy(t, "127.0.0.1:1")
	c, err := client.New(p.ConnectString(), client.Options{Logger: client.NoLog})
	w.Must(err)
	defer func() { _ = c.Close(w.Ctx) }()
	n := launch(w, c, "/a", "", presence.NodeOptions{})
	w.Must(n.Close(w.Ctx))
}

// Close while it is unknown whether the node has been made.
func TestNodeCloseInDoubt(t *testing.T) {
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			w := trial.New(t)
			w.Must(settle.Ensure(w.Ctx, w.Look, "/d", client.CreateOptions{}))
			cut := w.Proxy.CutAfter(zktest.Op(jute.OpCreate2))
			w.Proxy.Refuse()
			n := launch(w, w.C, "/d/a", "", o)
			<-cut.Done()
			closed := make(chan error)
			go func() { closed <- n.Close(w.Ctx) }()
			for !errors.Is(n.Start(nil), recipes.ErrClosed) {
			}
			w.Proxy.Accept()
			w.Must(<-closed)
			if got := w.AwaitChildren("/d", 0); len(got) != 0 {
				t.Errorf("nodes are %q", got)
			}
		})
	}
}
