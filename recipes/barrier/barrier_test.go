package barrier_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/barrier"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

func at(t testing.TB, c *client.Client, path string) *barrier.Barrier {
	t.Helper()
	b, err := barrier.New(c, path, barrier.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wait(ctx context.Context, b *barrier.Barrier) <-chan error {
	done := make(chan error, 1)
	go func() { done <- b.Wait(ctx) }()
	return done
}

// awaitWatch waits until clients have made n reads with a watch.
func awaitWatch(w *trial.World, rec *zktest.Recording, n int, clients ...*client.Client) {
	w.Helper()
	w.Must(rec.Await(w.Ctx, "watch", func(zktest.Traced) bool {
		return n <= len(slices.DeleteFunc(rec.All(), func(r zktest.Traced) bool { return !r.Watch }))
	}))
	for _, c := range append(clients, w.C) { // later requests are answered later
		_, err := c.Exists(w.Ctx, "/")
		w.Must(err)
	}
}

// mustNotWatch fails the test if C has a watch.
func mustNotWatch(w *trial.World) {
	w.Helper()
	mustBe(w, w.C.Session().CheckWatches(w.Ctx, "/b", client.AnyWatches), client.ErrNoWatcher)
}

var mustBe = trial.MustBe

// The barrier is in place while its node exists.
func TestSetWaitRemove(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	b, other := at(t, w.C, "/far/away/b"), at(t, w.Other(), "/far/away/b")
	w.Must(b.Wait(w.Ctx)) // there is none
	w.Must(b.Remove(w.Ctx))
	w.Must(b.Set(w.Ctx))
	w.Must(other.Set(w.Ctx))
	there, err := other.Present(w.Ctx)
	if !there || err != nil {
		t.Errorf("present = %v, %v after it was set", there, err)
	}
	done := wait(w.Ctx, b)
	w.Must(other.Remove(w.Ctx))
	w.Must(<-done)
	there, err = b.Present(w.Ctx)
	if there || err != nil {
		t.Errorf("present = %v, %v after it was removed", there, err)
	}
}

// A Wait costs one read with a watch and one wake-up, after which it looks again.
func TestTraceWait(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	w.Must(at(t, w.Look, "/b").Set(w.Ctx))
	rec := w.Record()
	done := wait(w.Ctx, at(t, w.C, "/b"))
	awaitWatch(w, rec, 1)
	w.Must(at(t, w.Look, "/b").Remove(w.Ctx))
	w.Must(<-done)
	// The exists is the test's own.
	want := []string{"sync /b", "getData /b watch", "exists ", "event NodeDeleted /b", "getData /b watch"}
	if got := w.Trace(rec); !slices.Equal(got, want) {
		t.Errorf("trace is %q, want %q", got, want)
	}
	// The last read found nothing, so it has left no watch.
	mustNotWatch(w)
}

func TestTraceSetAndRemove(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	rec := w.Record()
	b := at(t, w.C, "/b")
	w.Must(b.Set(w.Ctx))
	w.Must(b.Remove(w.Ctx))
	want := []string{"create /b", "sync /b", "exists /b", "delete /b"} // in sync: else it may find none
	if got := w.Trace(rec); !slices.Equal(got, want) {
		t.Errorf("trace is %q, want %q", got, want)
	}
}

// All that wait are woken, by one event each.
func TestAllAreReleased(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	const n = 10
	w.Must(at(t, w.Look, "/b").Set(w.Ctx))
	rec := w.Record()
	var waiting []<-chan error
	var clients []*client.Client
	for range n {
		c := w.Proxy.Client(t).WithRetry(trial.Quick()).Namespace(w.Dir())
		clients = append(clients, c)
		waiting = append(waiting, wait(w.Ctx, at(t, c, "/b")))
	}
	awaitWatch(w, rec, n, clients...)
	w.Must(at(t, w.Look, "/b").Remove(w.Ctx))
	for _, done := range waiting {
		w.Must(<-done)
	}
	events := slices.DeleteFunc(rec.All(), func(r zktest.Traced) bool { return r.Event == 0 })
	if len(events) != n {
		t.Errorf("%d waiters had %d wake-ups", n, len(events))
	}
}

// A barrier that is set again before the waiter has looked keeps the waiter.
func TestSetAgain(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	other := at(t, w.Look, "/b")
	w.Must(other.Set(w.Ctx))
	rec := w.Record()
	done := wait(w.Ctx, at(t, w.C, "/b"))
	awaitWatch(w, rec, 1)
	_, err := w.Look.Multi(w.Ctx, client.DeleteOp("/b", 0), client.CreateOp("/b", nil, client.CreateOptions{}))
	w.Must(err)
	awaitWatch(w, rec, 2)
	if len(done) != 0 {
		t.Error("wait has returned though the barrier is in place")
	}
	_, err = w.Look.Set(w.Ctx, "/b", []byte("data"), 0) // as Curator's have
	w.Must(err)
	awaitWatch(w, rec, 3)
	w.Must(other.Remove(w.Ctx))
	w.Must(<-done)
}

// The barrier is removed while the connection of the waiter is down.
func TestRemovedWhileCutOff(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	w.Must(at(t, w.Look, "/b").Set(w.Ctx))
	cut := w.Proxy.CutAfter(zktest.Op(jute.OpGetData))
	w.Proxy.Refuse()
	done := wait(w.Ctx, at(t, w.C, "/b"))
	<-cut.Done()
	w.Must(at(t, w.Look, "/b").Remove(w.Ctx))
	w.Proxy.Accept()
	w.Must(<-done)
}

func TestWaitGivesUp(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	w.Must(at(t, w.Look, "/b").Set(w.Ctx))
	rec := w.Record()
	why := errors.New("no more time")
	ctx, cancel := context.WithCancelCause(w.Ctx)
	done := wait(ctx, at(t, w.C, "/b"))
	awaitWatch(w, rec, 1)
	cancel(why)
	mustBe(t, <-done, why)
	mustNotWatch(w)
}

func TestSessionEndsWhileWaiting(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	w.Must(at(t, w.C, "/b").Set(w.Ctx))
	rec := w.Record()
	done := wait(w.Ctx, at(t, w.C, "/b"))
	awaitWatch(w, rec, 1)
	id := w.C.Session().ID()
	w.Proxy.ExpireSession(id)
	mustBe(t, <-done, recipes.ErrLost)
	if there, err := at(t, w.Look, "/b").Present(w.Ctx); !there || err != nil {
		t.Errorf("present = %v, %v: it should outlast who has set it", there, err)
	}
}

func TestBadUse(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	for _, path := range []string{"b", "/", "/b/", ""} {
		if _, err := barrier.New(w.C, path, barrier.Options{}); err == nil || !strings.Contains(err.Error(), "path") {
			t.Errorf("New(%q) = %v, want an error that names the path", path, err)
		}
	}
	if _, err := barrier.New(nil, "/b", barrier.Options{}); err == nil {
		t.Error("New without a client has no error")
	}
	w.Must(settle.Ensure(w.Ctx, w.Look, "/b/foreign", client.CreateOptions{}))
	err := at(t, w.C, "/b").Remove(w.Ctx)
	mustBe(t, err, recipes.ErrLayout)
	if !strings.Contains(err.Error(), "foreign") {
		t.Errorf("remove = %v, want the child's name in it", err)
	}
	_, err = w.Look.Create(w.Ctx, "/c", nil, client.CreateOptions{ACL: []client.ACL{client.DigestACL(client.PermAll, "me", "secret"), {Perms: client.PermCreate, ID: jute.WorldAnyone}}})
	w.Must(err)
	_, err = w.Look.Create(w.Ctx, "/c/foreign", nil, client.CreateOptions{})
	w.Must(err)
	mustBe(t, at(t, w.C, "/c").Remove(w.Ctx), recipes.ErrLayout) // also where it may not see which
}

func TestForbidden(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	acl := []client.ACL{client.DigestACL(client.PermAll, "me", "secret")}
	own := w.Other(func(o *client.Options) { o.Auth = []client.Auth{{Scheme: "digest", Data: []byte("me:secret")}} })
	b, err := barrier.New(own, "/mine/b", barrier.Options{ACL: acl})
	w.Must(err)
	w.Must(b.Set(w.Ctx))
	foreign := at(t, w.C, "/mine/b")
	mustBe(t, foreign.Wait(w.Ctx), client.ErrNoAuth)
	mustBe(t, foreign.Remove(w.Ctx), client.ErrNoAuth)
	mustBe(t, at(t, w.C, "/mine/other").Set(w.Ctx), client.ErrNoAuth)
	w.Must(b.Remove(w.Ctx))
}

// Set and Remove are done when they say so, whatever breaks. If the session ends they
// are or are not, and the next one can do them.
func TestEveryFault(t *testing.T) {
	for _, renew := range []bool{false, true} {
		t.Run(map[bool]string{false: "keep", true: "renew"}[renew], func(t *testing.T) {
			trial.Every(t, renew, func(w *trial.World) {
				b, other := at(w, w.C, "/dir/b"), at(w, w.Look, "/dir/b")
				if done(w, b.Set(w.Ctx)) != present(w, other) && !w.Expires {
					w.Errorf("%s: set, but the barrier is not in place", w.Fault)
				}
				w.Must(other.Set(w.Ctx))
				released := wait(w.Ctx, other)
				if !done(w, b.Remove(w.Ctx)) {
					w.Must(other.Remove(w.Ctx))
				}
				if present(w, other) {
					w.Errorf("%s: removed, but the barrier is in place", w.Fault)
				}
				w.Must(<-released)
			})
		})
	}
}

// Wait returns when the barrier is gone and never before.
func TestEveryFaultOfWait(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		other := at(w, w.Look, "/b")
		w.Must(other.Set(w.Ctx))
		rec := w.Record()
		ctx, cancel := context.WithCancel(w.Ctx)
		waiting := make(chan error, 1)
		go func() {
			defer cancel()
			waiting <- at(w, w.C, "/b").Wait(w.Ctx)
		}()
		_ = rec.Await(ctx, "read", func(r zktest.Traced) bool { return r.Op == jute.OpGetData })
		if len(waiting) > 0 && !w.Expires {
			w.Errorf("%s: wait has returned though the barrier is in place", w.Fault)
		}
		w.Must(other.Remove(w.Ctx))
		done(w, <-waiting)
	})
}

// done reports whether there was no error; the only one allowed is that C's session
// has ended.
func done(w *trial.World, err error) bool {
	w.Helper()
	if err != nil && !(w.Expires && errors.Is(err, recipes.ErrLost)) {
		w.Errorf("%s: %v", w.Fault, err)
	}
	return err == nil
}

func present(w *trial.World, b *barrier.Barrier) bool {
	w.Helper()
	there, err := b.Present(w.Ctx)
	w.Must(err)
	return there
}
