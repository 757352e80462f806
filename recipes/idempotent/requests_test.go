package idempotent_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/idempotent"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

func open(t *testing.T, c *client.Client) *idempotent.Requests {
	t.Helper()
	r, err := idempotent.New(c, "/app/requests", idempotent.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// enqueue is a change of which two would be visible.
func enqueue() client.Op {
	return client.CreateOp("/items/item-", nil, client.CreateOptions{Mode: client.PersistentSequential})
}

// items creates the parent of the nodes that enqueue creates.
func items(w *trial.World) {
	w.Helper()
	_, err := w.Look.Create(w.Ctx, "/items", nil, client.CreateOptions{})
	w.Must(err)
}

// A request costs one multi, and a repetition also a read of the marker.
func TestTrace(t *testing.T) {
	w := trial.New(t)
	items(w)
	r := open(t, w.C)
	rec := w.Record()
	multi := []string{"multi /app/requests/done-42", "multi /items/item-"}
	for _, want := range [][]string{
		append(append(slices.Clone(multi), "exists /app/requests", "exists /app", "exists ", "createContainer /app", "createContainer /app/requests"), multi...),
		append(slices.Clone(multi), "getData /app/requests/done-42"),
	} {
		_, err := r.Do(w.Ctx, "42", enqueue())
		w.Must(err)
		if got := w.Trace(rec); !slices.Equal(got, want) {
			t.Errorf("it asks for %q, want %q", got, want)
		}
	}
	_, err := r.Do(w.Ctx, "43", enqueue())
	w.Must(err)
	if got := w.Trace(rec); len(got) != 2 {
		t.Errorf("another one asks for %q, want a multi of two", got)
	}
}

// A repetition, also by another client, does nothing and returns when the request was done.
func TestRepeat(t *testing.T) {
	w := trial.New(t)
	items(w)
	first, err := open(t, w.C).Do(w.Ctx, "a/b ☂", enqueue())
	w.Must(err)
	if first.Before || len(first.Results) != 1 || first.Results[0].Path != "/items/item-0000000000" {
		t.Errorf("first: %+v", first)
	}
	again, err := open(t, w.Other()).Do(w.Ctx, "a/b ☂", enqueue())
	w.Must(err)
	if !again.Before || again.Results != nil || again.Zxid == 0 || again.At.IsZero() {
		t.Errorf("repeat: %+v", again)
	}
	if first.Zxid != 0 && (first.Zxid != again.Zxid || !first.At.Equal(again.At)) {
		t.Errorf("first %+v, repeat %+v: they are not of the same moment", first, again)
	}
	if got := w.Children("/items"); len(got) != 1 {
		t.Errorf("there are %q, want one", got)
	}
	if got := w.Children("/app/requests"); !slices.Equal(got, []string{"done-a%2Fb%20%E2%98%82"}) {
		t.Errorf("markers are %q", got)
	}
}

// A request that fails leaves no marker, and can be repeated. The index in the error counts
// the caller's operations.
func TestFailedOperation(t *testing.T) {
	w := trial.New(t)
	r := open(t, w.C)
	_, err := w.Look.Create(w.Ctx, "/stock", []byte("1"), client.CreateOptions{})
	w.Must(err)
	_, err = r.Do(w.Ctx, "1", client.CheckOp("/stock", 0), enqueue())
	failed, ok := errors.AsType[*client.MultiError](err)
	if !errors.Is(err, client.ErrNoNode) || !ok || failed.Index != 1 || failed.Path != "/items/item-" || client.IsAmbiguous(err) {
		t.Errorf("do = %v, want no node of operation 1", err)
	}
	if _, done, err := r.Done(w.Ctx, "1"); done || err != nil {
		t.Errorf("done = %t, %v after a failure", done, err)
	}
	items(w)
	o, err := r.Do(w.Ctx, "1", client.CheckOp("/stock", 0), enqueue())
	if err != nil || o.Before || len(o.Results) != 2 {
		t.Errorf("do = %+v, %v", o, err)
	}
	if was, done, err := r.Done(w.Ctx, "1"); !done || err != nil || !was.Before || was.Zxid == 0 {
		t.Errorf("done = %+v, %t, %v", was, done, err)
	}
}

// A request without operations is a claim: one of all callers is the first.
func TestClaim(t *testing.T) {
	w := trial.New(t)
	const askers = 8
	firsts := make(chan bool, askers)
	for range askers {
		r := open(t, w.Other())
		go func() {
			o, err := r.Do(w.Ctx, "mine")
			if err != nil {
				t.Error(err)
			}
			firsts <- !o.Before
		}()
	}
	n := 0
	for range askers {
		if <-firsts {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d were told to be the first", n)
	}
}

// Prune deletes markers that are old by the leader's clock, and Forget deletes one; then the
// request is a new one.
func TestPruneAndForget(t *testing.T) {
	w := trial.New(t)
	items(w)
	r := open(t, w.C)
	if n, err := r.Prune(w.Ctx, 0); n != 0 || err != nil {
		t.Errorf("prune of nothing = %d, %v", n, err)
	}
	for _, id := range []string{"1", "2", "3"} {
		_, err := r.Do(w.Ctx, id, enqueue())
		w.Must(err)
	}
	w.Must(r.Forget(w.Ctx, "3"))
	w.Must(r.Forget(w.Ctx, "3"))
	if n, err := r.Prune(w.Ctx, time.Hour); n != 0 || err != nil {
		t.Errorf("prune of what is an hour old = %d, %v", n, err)
	}
	if n, err := r.Prune(w.Ctx, 0); n != 2 || err != nil {
		t.Errorf("prune of all = %d, %v, want 2", n, err)
	}
	for _, id := range []string{"1", "3"} {
		if o, err := r.Do(w.Ctx, id, enqueue()); err != nil || o.Before {
			t.Errorf("request %s, of which nobody knows any more: %+v, %v", id, o, err)
		}
	}
}

// A marker with a TTL needs servers with TTL nodes enabled.
func TestTTL(t *testing.T) {
	w := trial.New(t)
	r, err := idempotent.New(w.C, "/app/requests", idempotent.Options{TTL: time.Hour})
	w.Must(err)
	first, err := r.Do(w.Ctx, "1")
	if errors.Is(err, client.ErrUnimplemented) {
		return // Apache's don't by default
	}
	w.Must(err)
	again, err := r.Do(w.Ctx, "1")
	if err != nil || first.Before || !again.Before {
		t.Errorf("first %+v, then %+v, %v", first, again, err)
	}
}

func TestBadUse(t *testing.T) {
	w := trial.New(t)
	for _, path := range []string{"", "requests", "/", "/requests/"} {
		if _, err := idempotent.New(w.C, path, idempotent.Options{}); !errors.Is(err, client.ErrBadArguments) {
			t.Errorf("new at %q = %v", path, err)
		}
	}
	for _, ttl := range []time.Duration{-1, time.Microsecond} {
		if _, err := idempotent.New(w.C, "/r", idempotent.Options{TTL: ttl}); !errors.Is(err, client.ErrBadArguments) || !strings.Contains(err.Error(), "TTL") {
			t.Errorf("new with a time to live of %v = %v", ttl, err)
		}
	}
	r := open(t, w.C)
	if _, err := r.Do(w.Ctx, ""); !errors.Is(err, client.ErrBadArguments) {
		t.Errorf("do without an id = %v", err)
	}
	if _, _, err := r.Done(w.Ctx, ""); !errors.Is(err, client.ErrBadArguments) {
		t.Errorf("done without an id = %v", err)
	}
	if err := r.Forget(w.Ctx, ""); !errors.Is(err, client.ErrBadArguments) {
		t.Errorf("forget without an id = %v", err)
	}
}

// If a child is not a marker, Prune deletes nothing.
func TestForeignChildren(t *testing.T) {
	w := trial.New(t)
	r := open(t, w.C)
	_, err := r.Do(w.Ctx, "1")
	w.Must(err)
	for _, name := range []string{"other", "done-%41"} {
		made, err := w.Look.Create(w.Ctx, "/app/requests/"+name, nil, client.CreateOptions{})
		w.Must(err)
		if n, err := r.Prune(w.Ctx, 0); n != 0 || !errors.Is(err, recipes.ErrLayout) || !strings.Contains(err.Error(), made.Path) {
			t.Errorf("prune beside %s = %d, %v", made.Path, n, err)
		}
		w.Must(w.Look.Delete(w.Ctx, made.Path, client.AnyVersion))
	}
	if got := w.Children("/app/requests"); len(got) != 1 {
		t.Errorf("markers are %q, want one", got)
	}
}

// The ACL forbids creating the marker when the request is repeated: the first attempt may
// have been done.
func TestForbiddenInDoubt(t *testing.T) {
	for when, cut := range map[string]func(*zktest.Proxy, zktest.Match) *zktest.Cut{
		"before": (*zktest.Proxy).CutBefore, "after": (*zktest.Proxy).CutAfter,
	} {
		t.Run(when, func(t *testing.T) {
			w := trial.New(t)
			items(w)
			_, err := settle.CreateAll(w.Ctx, w.Look, "/app/requests", nil, client.CreateOptions{})
			w.Must(err)
			broken := cut(w.Proxy, zktest.Op(jute.OpMulti))
			w.Proxy.Refuse()
			done := make(chan error)
			go func() {
				_, err := open(t, w.C).Do(w.Ctx, "1", enqueue())
				done <- err
			}()
			<-broken.Done()
			_, err = w.Look.SetACL(w.Ctx, "/app/requests", client.ReadACL(), client.AnyVersion)
			w.Must(err)
			w.Proxy.Accept()
			if err := <-done; !errors.Is(err, client.ErrNoAuth) || !client.IsAmbiguous(err) {
				t.Errorf("do = %v, want no auth, and that it may be done", err)
			}
		})
	}
}

// An operation after the marker fails: so there was no marker, and no earlier attempt was
// done.
func TestFailedOperationAfterDoubt(t *testing.T) {
	w := trial.New(t)
	items(w)
	_, err := settle.CreateAll(w.Ctx, w.Look, "/app/requests", nil, client.CreateOptions{})
	w.Must(err)
	cut := w.Proxy.CutBefore(zktest.Op(jute.OpMulti))
	_, err = open(t, w.C).Do(w.Ctx, "1", enqueue(), client.CheckOp("/items", 7))
	<-cut.Done()
	if !errors.Is(err, client.ErrBadVersion) || client.IsAmbiguous(err) {
		t.Errorf("do = %v, want a bad version, and nothing in doubt", err)
	}
}

func TestForbidden(t *testing.T) {
	w := trial.New(t)
	items(w)
	_, err := settle.CreateAll(w.Ctx, w.Look, "/app/requests", nil, client.CreateOptions{})
	w.Must(err)
	_, err = w.Look.SetACL(w.Ctx, "/app/requests", client.ReadACL(), client.AnyVersion)
	w.Must(err)
	r := open(t, w.C)
	if _, err := r.Do(w.Ctx, "1", enqueue()); !errors.Is(err, client.ErrNoAuth) || !strings.Contains(err.Error(), "/app/requests") {
		t.Errorf("do = %v, want no auth with the path", err)
	}
	if _, err := r.Prune(w.Ctx, 0); !errors.Is(err, client.ErrNoAuth) || !strings.Contains(err.Error(), "/app/requests") {
		t.Errorf("prune = %v, want no auth with the path", err)
	}
	if got := w.Children("/items"); len(got) > 0 {
		t.Errorf("%q is left", got)
	}
}
