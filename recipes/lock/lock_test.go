package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

func TestNew(t *testing.T) {
	for _, x := range []struct {
		path string
		o    lock.Options
		says string
	}{
		{"locks", lock.Options{}, "does not begin with /"},
		{"", lock.Options{}, "path is empty"},
		{"/", lock.Options{}, "below"},
		{"/a//b", lock.Options{}, "/a//b"},
		{"/a", lock.Options{Layout: 3}, "Layout(3): it must be Curator, Kazoo or WriteLock"},
		{"/a", lock.Options{Layout: -1}, "Layout(-1)"},
		{"/a", lock.Options{Options: hold.Options{Reserve: -time.Second}}, "Reserve is -1s"},
	} {
		if _, err := lock.NewMutex(nil, x.path, x.o); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("New(%q, %+v) = %v, want it to say %q", x.path, x.o, err, x.says)
		}
	}
}

// Names of all layouts contend for one lock, in the order of their numbers.
func TestLayoutsContend(t *testing.T) {
	w := trial.New(t)
	var outs []<-chan outcome
	h := held(w, w.C, lock.Options{})
	for i := range 6 {
		outs = append(outs, locking(w.Ctx, mutex(t, w.C, lock.Options{Layout: lock.Layout(i % 3)})))
		w.AwaitChildren("/l", 2+i)
	}
	token := h.Token()
	for i, out := range outs {
		w.Must(h.Err())
		w.Must(h.Release(w.Ctx))
		got := <-out
		w.Must(got.err)
		if h = got.held; h.Token() <= token {
			t.Errorf("token %v after %v", h.Token(), token)
		}
		token = h.Token()
		if want := []string{"_c_", "__lock__", "x-"}[i%3]; !strings.Contains(h.Path(), want) {
			t.Errorf("layout %v has %s", lock.Layout(i%3), h.Path())
		}
	}
	w.Must(h.Release(w.Ctx))
	w.AwaitChildren("/l", 0)
}

func TestTryLock(t *testing.T) {
	w := trial.New(t)
	m := mutex(t, w.C, lock.Options{})
	rec := w.Record()
	h, ok, err := m.TryLock(w.Ctx)
	if !ok || err != nil {
		t.Fatalf("a free lock: %v, %v", ok, err)
	}
	awaitWatches(w, rec, 1)
	rec.Take()
	if h, ok, err := m.TryLock(w.Ctx); h != nil || ok || err != nil {
		t.Errorf("a lock that is held: %v, %v, %v", h, ok, err)
	}
	mustTrace(w, rec, "getChildren2 /l", "sync /l", "getChildren2 /l")
	w.Must(h.Release(w.Ctx))
}

// The end of the context with which it was acquired ends the work, and does not release; the
// values of it stay.
func TestContext(t *testing.T) {
	w := trial.New(t)
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(w.Ctx, key{}, "value"))
	h, err := mutex(t, w.C, lock.Options{}).Lock(ctx)
	w.Must(err)
	w.Must(h.Context().Err())
	cancel()
	<-h.Context().Done()
	mustBe(t, context.Cause(h.Context()), context.Canceled)
	w.Must(h.Err())
	if got := w.Children("/l"); len(got) != 1 {
		t.Errorf("held: %q", got)
	}
	if got := h.Context().Value(key{}); got != "value" {
		t.Errorf("the context's value is %v", got)
	}
	w.Must(h.Release(ctx)) // though it has ended
	mustBe(t, h.Err(), recipes.ErrNotHeld)
	if got := w.Children("/l"); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

// TestHolderACL: a holder continues after its session has ended and another client has the
// lock. Its late write succeeds in its next session, but not if the znode's ACL names the lock.
func TestHolderACL(t *testing.T) {
	w := trial.New(t)
	first := w.Proxy.Client(t, func(o *client.Options) { o.RenewSession = true }).WithRetry(trial.Quick()).Namespace(w.Dir())
	for _, path := range []string{"/open", "/report"} {
		_, err := w.Look.Create(w.Ctx, path, nil, client.CreateOptions{})
		w.Must(err)
	}
	if err := hold.Protect(w.Ctx, w.Look, "/l", "/report"); err != nil { // a server of Apache
		mustBe(t, err, client.ErrInvalidACL)
		if !strings.Contains(err.Error(), "does not know ACLs for the holder of a lock") {
			t.Errorf("%v", err)
		}
		return
	}
	mustBe(t, hold.Protect(w.Ctx, w.Look, "/l", "/none"), client.ErrNoNode)
	write := func(c *client.Client, path, data string) error {
		_, err := c.Set(w.Ctx, path, []byte(data), client.AnyVersion)
		return err
	}
	h := held(w, first, lock.Options{})
	w.Must(write(first, "/report", "first"))
	mustBe(t, write(w.Look, "/report", "another"), client.ErrNoAuth)

	session := first.Session().ID()
	w.Proxy.ExpireSession(session)
	later := held(w, w.Look, lock.Options{})
	<-h.Context().Done()
	w.Must(first.WaitConnected(w.Ctx))
	w.Must(write(first, "/open", "late"))
	mustBe(t, write(first, "/report", "late"), client.ErrNoAuth)
	w.Must(write(w.Look, "/report", "second"))
	w.Must(later.Release(w.Ctx))
	mustBe(t, write(w.Look, "/report", "after"), client.ErrNoAuth)
	node, err := w.Look.Get(w.Ctx, "/report")
	if err != nil || string(node.Data) != "second" {
		t.Errorf("/report is %q, %v", node.Data, err)
	}
}

func TestLockThatIsLost(t *testing.T) {
	for name, lose := range map[string]func(w *trial.World, h *hold.Held){
		"deleted": func(w *trial.World, h *hold.Held) { w.Must(w.Look.Delete(w.Ctx, h.Path(), client.AnyVersion)) },
		"expired": func(w *trial.World, h *hold.Held) {
			id := w.C.Session().ID()
			w.Proxy.ExpireSession(id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := trial.New(t)
			h := held(w, w.C, lock.Options{})
			lose(w, h)
			<-h.Context().Done()
			mustBe(t, context.Cause(h.Context()), recipes.ErrLost)
			mustBe(t, h.Err(), recipes.ErrLost)
			if trial.Write(w.Ctx, w.C, h) == nil {
				t.Error("a guarded write went through")
			}
			mustBe(t, h.Release(w.Ctx), recipes.ErrLost)
			mustBe(t, h.Release(w.Ctx), recipes.ErrNotHeld)
		})
	}
}

// Without a connection the lock is lost before the servers may give it to another client.
func TestReserve(t *testing.T) {
	w := trial.New(t)
	h := held(w, w.C, lock.Options{Options: hold.Options{Reserve: w.C.Status().Timeout - time.Millisecond}})
	before := w.C.Status().Deadline
	w.Proxy.Refuse()
	w.Proxy.CutConnections()
	<-h.Context().Done()
	mustBe(t, context.Cause(h.Context()), recipes.ErrLost)
	if left := time.Until(before); left <= 0 {
		t.Errorf("it was told %v after the session's deadline", -left)
	}
	w.Proxy.Accept()
	mustBe(t, h.Release(w.Ctx), recipes.ErrLost)
	w.AwaitChildren("/l", 0) // it is deleted all the same
}

// A waiter notices at once that its place was broken. The others continue to wait.
func TestBreakOfOneWhoWaits(t *testing.T) {
	w := trial.New(t)
	first := held(w, w.Look, lock.Options{Options: hold.Options{Data: []byte("first")}})
	rec := w.Record()
	out := locking(w.Ctx, mutex(t, w.C, lock.Options{}))
	awaitWatches(w, rec, 1)
	third := locking(w.Ctx, mutex(t, w.C, lock.Options{}))
	awaitWatches(w, rec, 2)
	w.Must(w.C.Sync(w.Ctx, "/")) // the watches are set, too
	all, err := hold.Contenders(w.Ctx, w.Look, "/l")
	w.Must(err)
	_, err = hold.Break(w.Ctx, w.Look, all[1])
	w.Must(err)
	mustBe(t, (<-out).err, recipes.ErrLost)
	w.Must(first.Err())
	if node, err := w.Look.Get(w.Ctx, first.Path()); string(node.Data) != "first" || err != nil {
		t.Errorf("the data of the one before are %q, %v", node.Data, err)
	}
	w.Must(first.Release(w.Ctx))
	got := <-third
	w.Must(got.err)
	w.Must(got.held.Release(w.Ctx))
}

// The lock is broken while the holder has no connection, and then the holder releases. Release
// does not claim that it was held until the end: nobody knows.
func TestReleaseWithoutAConnection(t *testing.T) {
	w := trial.New(t)
	h := held(w, w.C, lock.Options{})
	all, err := mutex(t, w.Look, lock.Options{}).Contenders(w.Ctx)
	w.Must(err)
	w.Disconnect()
	_, err = hold.Break(w.Ctx, w.Look, all[0])
	w.Must(err)
	other := held(w, w.Look, lock.Options{})
	w.Must(h.Err()) // nothing says that it is lost
	ended, end := context.WithCancel(w.Ctx)
	end()
	err = h.Release(ended) // which does not wait
	if !client.IsAmbiguous(err) || errors.Is(err, recipes.ErrLost) {
		t.Errorf("release = %v, want that it is not known whether it was held", err)
	}
	w.Proxy.Accept()
	w.Must(other.Err())
	w.Must(other.Release(w.Ctx))
}

func TestReentrant(t *testing.T) {
	w := trial.New(t)
	m := mutex(t, w.C, lock.Options{Reentrant: true})
	outer, err := m.Lock(w.Ctx)
	w.Must(err)
	inner, err := m.Lock(outer.Context())
	w.Must(err)
	again, ok, err := m.TryLock(inner.Context())
	if !ok || err != nil {
		t.Fatalf("try lock of one's own: %v, %v", ok, err)
	}
	if inner.Path() != outer.Path() || again.Token() != outer.Token() {
		t.Error("it is another one")
	}
	w.Must(outer.Release(w.Ctx))
	mustBe(t, outer.Release(w.Ctx), recipes.ErrNotHeld)
	mustBe(t, outer.Err(), recipes.ErrNotHeld)
	w.Must(inner.Err())
	w.Must(inner.Release(w.Ctx))
	if got := w.Children("/l"); len(got) != 1 {
		t.Errorf("after two of three there are %q", got)
	}
	w.Must(again.Release(w.Ctx))
	if got := w.Children("/l"); len(got) != 0 {
		t.Errorf("after all there are %q", got)
	}
	if _, err := m.Lock(again.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("lock in what is over: %v", err)
	}
	fresh, err := m.Lock(context.WithoutCancel(again.Context()))
	w.Must(err)
	w.Must(fresh.Release(w.Ctx))
}

// A lock that is not reentrant does not wait for itself.
func TestNotReentrant(t *testing.T) {
	w := trial.New(t)
	m := mutex(t, w.C, lock.Options{})
	h, err := m.Lock(w.Ctx)
	w.Must(err)
	if _, err := m.Lock(h.Context()); err == nil || !strings.Contains(err.Error(), "Options.Reentrant") {
		t.Errorf("lock of one's own: %v", err)
	}
	w.Must(h.Release(w.Ctx))
}

// listener records the calls.
type listener struct{ told chan string }

func (l listener) Acquired(h *hold.Held) { l.told <- "acquired " + h.Path() }
func (l listener) Released(h *hold.Held) { l.told <- "released " + h.Path() }
func (l listener) Lost(h *hold.Held, cause error) {
	l.told <- fmt.Sprintf("lost %s %v", h.Path(), errors.Is(cause, recipes.ErrLost))
}

// As with Apache's LockListener, and it is notified of a loss, too.
func TestListener(t *testing.T) {
	w := trial.New(t)
	l := listener{make(chan string, 10)}
	m := mutex(t, w.C, lock.Options{Listener: l})
	h, err := m.Lock(w.Ctx)
	w.Must(err)
	first := h.Path()
	w.Must(h.Release(w.Ctx))
	h, err = m.Lock(w.Ctx)
	w.Must(err)
	w.Must(w.Look.Delete(w.Ctx, h.Path(), client.AnyVersion))
	<-h.Context().Done()
	want := []string{"acquired " + first, "released " + first, "acquired " + h.Path(), "lost " + h.Path() + " true"}
	for _, want := range want {
		if got := <-l.told; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	mustBe(t, h.Release(w.Ctx), recipes.ErrLost)
	if len(l.told) > 0 {
		t.Errorf("told %q behind the loss", <-l.told)
	}
}

func TestWaiting(t *testing.T) {
	w := trial.New(t)
	behind := make(chan string, 10)
	first := held(w, w.Look, lock.Options{})
	ctx, giveUp := context.WithCancel(w.Ctx)
	second := locking(ctx, mutex(t, w.Look, lock.Options{}))
	names := w.AwaitChildren("/l", 2)
	out := locking(w.Ctx, mutex(t, w.C, lock.Options{Waiting: func(path string) { behind <- path }}))
	path := <-behind
	if path == first.Path() || !slices.Contains(names, strings.TrimPrefix(path, "/l/")) {
		t.Errorf("it waits behind %s", path)
	}
	giveUp() // then another one is before it
	mustBe(t, (<-second).err, context.Canceled)
	if path := <-behind; path != first.Path() {
		t.Errorf("then it waits behind %s, want %s", path, first.Path())
	}
	w.Must(first.Release(w.Ctx))
	got := <-out
	w.Must(got.err)
	w.Must(got.held.Release(w.Ctx))
}

// A node of another kind makes every call fail, and no node is left.
func TestForeignChildren(t *testing.T) {
	w := trial.New(t)
	for _, name := range []string{"readme", "_c_5f1d3c7a-5a7e-4d0c-9a5e-1f5c8f0a7b11-latch-0000000001", "a__rlock__0000000001", "lock-1", "x-y-0000000001"} {
		_, err := settle.CreateAll(w.Ctx, w.Look, "/l/"+name, nil, client.CreateOptions{})
		w.Must(err)
		m := mutex(t, w.C, lock.Options{})
		_, err = m.Lock(w.Ctx)
		if mustBe(t, err, recipes.ErrLayout); !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
		_, _, err = m.TryLock(w.Ctx)
		mustBe(t, err, recipes.ErrLayout)
		_, err = m.Contenders(w.Ctx)
		mustBe(t, err, recipes.ErrLayout)
		if got := w.Children("/l"); !slices.Equal(got, []string{name}) {
			t.Errorf("there are %q", got)
		}
		w.Must(w.Look.Delete(w.Ctx, "/l/"+name, client.AnyVersion))
	}
}

// The options' ACL is that of all nodes, and one that forbids is an error.
func TestACL(t *testing.T) {
	w := trial.New(t)
	acl := []client.ACL{client.DigestACL(client.PermAll, "user", "secret")}
	w.Must(w.C.Session().AddAuth(w.Ctx, "digest", []byte("user:secret")))
	h := held(w, w.C, lock.Options{Options: hold.Options{ACL: acl}})
	for _, path := range []string{"/l", h.Path()} {
		access, err := w.C.GetACL(w.Ctx, path)
		w.Must(err)
		if !slices.Equal(access.ACL, acl) {
			t.Errorf("%s has %v", path, access.ACL)
		}
	}
	stranger := mutex(t, w.Look, lock.Options{})
	_, err := stranger.Lock(w.Ctx)
	mustBe(t, err, client.ErrNoAuth)
	_, _, err = stranger.TryLock(w.Ctx)
	mustBe(t, err, client.ErrNoAuth)
	_, err = stranger.Contenders(w.Ctx)
	mustBe(t, err, client.ErrNoAuth)
	w.Must(h.Err())
	w.Must(h.Release(w.Ctx))
	list, err := w.C.Children(w.Ctx, "/l")
	w.Must(err)
	if len(list.Names) > 0 {
		t.Errorf("left: %q", list.Names)
	}
}

// A lock whose holder can't read its own node can't be watched: it counts as lost.
func TestACLThatForbidsToRead(t *testing.T) {
	w := trial.New(t)
	_, err := w.Look.Create(w.Ctx, "/l", nil, client.CreateOptions{})
	w.Must(err)
	h := held(w, w.C, lock.Options{Options: hold.Options{ACL: []client.ACL{client.DigestACL(client.PermAll, "user", "secret")}}})
	<-h.Context().Done()
	mustBe(t, context.Cause(h.Context()), recipes.ErrLost, client.ErrNoAuth)
	mustBe(t, h.Release(w.Ctx), recipes.ErrLost)
	w.AwaitChildren("/l", 0)
}

func TestContenders(t *testing.T) {
	w := trial.New(t)
	m := mutex(t, w.C, lock.Options{})
	if got, err := m.Contenders(w.Ctx); len(got) != 0 || err != nil {
		t.Errorf("of no lock: %v, %v", got, err)
	}
	first, err := m.Lock(w.Ctx)
	w.Must(err)
	out := locking(w.Ctx, mutex(t, w.Look, lock.Options{Options: hold.Options{Data: []byte("second")}, Layout: lock.Kazoo}))
	w.AwaitChildren("/l", 2)
	list, err := m.Contenders(w.Ctx)
	w.Must(err)
	if len(list) != 2 {
		t.Fatalf("contenders: %v", list)
	}
	host, _ := os.Hostname()
	id := w.C.Session().ID()
	one, two := list[0], list[1]
	if !one.Holds || one.Path != first.Path() || one.Token != first.Token() || one.Session != id || string(one.Data) != fmt.Sprintf("%s:%d", host, os.Getpid()) {
		t.Errorf("the first is %+v", one)
	}
	id = w.Look.Session().ID()
	if two.Holds || two.Session != id || string(two.Data) != "second" || two.Since.Before(one.Since) {
		t.Errorf("the second is %+v", two)
	}
	broken, err := m.Break(w.Ctx, one)
	if err != nil || broken.Path != one.Path || !broken.Holds || broken.Token != one.Token {
		t.Errorf("break: %+v, %v", broken, err)
	}
	<-first.Context().Done()
	mustBe(t, first.Release(w.Ctx), recipes.ErrLost)
	second := <-out
	w.Must(second.err)
	_, err = m.Break(w.Ctx, one)
	mustBe(t, err, client.ErrNoNode)
	another := two
	another.Token--
	_, err = m.Break(w.Ctx, another)
	mustBe(t, err, client.ErrBadVersion)
	w.Must(second.held.Release(w.Ctx))
}
