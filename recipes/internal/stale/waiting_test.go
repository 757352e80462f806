package stale_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/barrier"
	"github.com/zkd-project/zkd/recipes/twopc"
)

// settled reports whether a call that can't have an answer yet has none, after a round trip of
// its client.
func (w *world) waits(what string, c *client.Client, done func() bool) {
	w.Helper()
	w.must(c.Sync(w.ctx, "/"))
	if done() {
		w.Errorf("%s has not waited", what)
	}
}

// ready reports whether there is an answer.
func ready[T any](done <-chan answer[T]) func() bool { return func() bool { return len(done) > 0 } }

// nothing turns a call without a value into one with a value.
func nothing(call func(ctx context.Context) error) func(ctx context.Context) (struct{}, error) {
	return func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) }
}

func TestBarrier(t *testing.T) {
	w := newWorld(t)
	here, there := both(w, func(c *client.Client) (*barrier.Barrier, error) { return barrier.New(c, "/b", barrier.Options{}) })
	w.lag()
	w.must(there.Set(w.ctx))
	asks := w.slow.Record()
	done := begin(w, nothing(here.Wait))
	w.must(asks.Await(w.ctx, "a request for the leader", forLeader))
	w.e.CatchUp(w.id)
	w.waits("barrier", w.here, ready(done))
	w.lag()
	w.must(there.Remove(w.ctx))
	w.e.CatchUp(w.id)
	w.must((<-done).err)
}

// A Reset that the server does not know of counts, and a Set works though the server shows
// the event set.
func TestManualEvent(t *testing.T) {
	w := newWorld(t)
	here, there := both(w, func(c *client.Client) (*barrier.Event, error) {
		return barrier.NewEvent(c, "/e", barrier.ManualReset, barrier.Options{})
	})
	w.must(there.Set(w.ctx))
	w.lag()
	w.must(there.Reset(w.ctx))
	asks := w.slow.Record()
	done := begin(w, nothing(here.Wait))
	w.must(asks.Await(w.ctx, "a request for the leader", forLeader))
	w.e.CatchUp(w.id)
	w.waits("wait for an event that was reset", w.here, ready(done))
	w.must(there.Set(w.ctx))
	w.must((<-done).err)

	w.must(w.here.Sync(w.ctx, "/"))
	w.lag()
	w.must(there.Reset(w.ctx))
	set, err := behind(w, here.IsSet)
	if err != nil || set {
		t.Errorf("is set: %t, %v, and it was reset", set, err)
	}
	w.must(there.Set(w.ctx))
	w.lag()
	w.must(there.Reset(w.ctx))
	w.must(behindErr(w, here.Set))
	if set, err := there.IsSet(w.ctx); err != nil || !set {
		t.Errorf("is set: %t, %v, and it was", set, err)
	}
	w.lag()
	w.must(there.Reset(w.ctx))
	w.must(there.Set(w.ctx))
	w.must(behindErr(w, here.Reset))
	if set, err := there.IsSet(w.ctx); err != nil || set {
		t.Errorf("is set: %t, %v, and it was reset", set, err)
	}
}

// Set knows which waiters have come and gone: it remembers one signal, and wakes each waiter
// once.
func TestAutoResetEvent(t *testing.T) {
	w := newWorld(t)
	here, there := both(w, func(c *client.Client) (*barrier.Event, error) {
		return barrier.NewEvent(c, "/e", barrier.AutoReset, barrier.Options{})
	})
	w.must(there.Set(w.ctx))
	w.must(there.Wait(w.ctx))
	w.lag()
	var waiting []<-chan answer[struct{}]
	for i := range 2 { // two wait, of whom the server does not know
		waiting = append(waiting, begin(w, nothing(there.Wait)))
		w.awaitChildren(w.there, "/e", i+1)
	}
	w.must(behindErr(w, here.Set))
	w.lag()
	w.must(behindErr(w, here.Set))
	for _, done := range waiting {
		w.must((<-done).err)
	}
	w.awaitChildren(w.there, "/e", 0)
	if set, err := there.IsSet(w.ctx); err != nil || set {
		t.Errorf("is set: %t, %v, and two have taken two", set, err)
	}
	w.must(there.Set(w.ctx))
	w.lag()
	w.must(there.Wait(w.ctx))
	w.must(behindErr(w, here.Set)) // the server believes that there is one already
	w.must(there.Wait(w.ctx))
}

// One signal is remembered, even if the server shows a waiter.
func TestAutoResetEventWithoutWaiters(t *testing.T) {
	w := newWorld(t)
	here, there := both(w, func(c *client.Client) (*barrier.Event, error) {
		return barrier.NewEvent(c, "/e", barrier.AutoReset, barrier.Options{})
	})
	w.must(there.Set(w.ctx))
	ghost := "/e/_c_00000000-0000-4000-8000-000000000000-waiter-"
	made, err := w.there.Create(w.ctx, ghost, nil, client.CreateOptions{Mode: client.EphemeralSequential}) // one that is paused
	w.must(err)
	w.lag()
	w.must(w.there.Delete(w.ctx, made.Path, client.AnyVersion))
	w.must(behindErr(w, here.Set))
	w.must(there.Wait(w.ctx))
	if set, err := there.IsSet(w.ctx); err != nil || set {
		t.Errorf("is set: %t, %v, and what was remembered has been taken", set, err)
	}
}

// awaitChildren waits until a client's server shows that many children.
func (w *world) awaitChildren(c *client.Client, path string, n int) {
	w.Helper()
	for {
		list, err := c.ChildrenW(w.ctx, path)
		if errors.Is(err, client.ErrNoNode) {
			w.must(c.Sync(w.ctx, path))
			continue
		}
		w.must(err)
		if len(list.Names) == n {
			w.must(list.Watch.Close(w.ctx))
			return
		}
		_, err = list.Watch.Next(w.ctx)
		w.must(err)
	}
}

// A party that has met and left is not met again.
func TestRendezvous(t *testing.T) {
	w := newWorld(t)
	here, there := both(w, func(c *client.Client) (*barrier.Rendezvous, error) {
		return barrier.NewRendezvous(c, "/r", 2, barrier.Options{})
	})
	meet := func(r *barrier.Rendezvous, value string) <-chan answer[barrier.Meeting] {
		return begin(w, func(ctx context.Context) (barrier.Meeting, error) { return r.Meet(ctx, []byte(value)) })
	}
	a := meet(there, "a")
	w.awaitChildren(w.there, "/r", 1)
	w.lag() // with a there
	b := meet(there, "b")
	w.must((<-a).err)
	w.must((<-b).err)
	asks := w.slow.Record()
	c := meet(here, "c")
	w.must(asks.Await(w.ctx, "a request for the leader", forLeader))
	w.e.CatchUp(w.id)
	w.awaitChildren(w.here, "/r", 1)
	w.waits("meeting alone", w.here, ready(c))
	d := meet(there, "d")
	mc, md := <-c, <-d
	if mc.err != nil || md.err != nil || fmt.Sprintf("%s", mc.value.Values) != "[c d]" || mc.value.ID != md.value.ID {
		t.Errorf("met %s, %v and %s, %v", mc.value.Values, mc.err, md.value.Values, md.err)
	}
}

// Nobody enters before n are there, and Release waits for those that are inside.
func TestDoubleBarrier(t *testing.T) {
	w := newWorld(t)
	here, there := both(w, func(c *client.Client) (*barrier.Double, error) {
		return barrier.NewDouble(c, "/d", 2, barrier.Options{})
	})
	for range 2 { // the second time there are traces of the first
		a := begin(w, there.Enter)
		w.awaitChildren(w.there, "/d", 1)
		w.lag()
		b, err := behind(w, here.Enter)
		w.must(err)
		in := <-a
		w.must(in.err)
		w.lag()
		left := begin(w, nothing(in.value.Release))
		w.waits("leave", w.there, ready(left))
		w.must(behindErr(w, b.Release))
		w.must((<-left).err)
	}
}

// A transaction is found once it has begun, and a decision stays.
func TestTwoPC(t *testing.T) {
	w := newWorld(t)
	here, there := both(w, func(c *client.Client) (*twopc.Transaction, error) { return twopc.New(c, "/tx", twopc.Options{}) })
	w.lag()
	w.must(there.Begin(w.ctx, twopc.Plan{Sites: []string{"a", "b"}, Data: []byte("x")}))
	a, err := behind(w, func(ctx context.Context) (*twopc.Site, error) { return here.Join(ctx, "a") })
	if w.must(err); string(a.Data()) != "x" {
		t.Errorf("joined %q", a.Data())
	}
	b, err := there.Join(w.ctx, "b")
	w.must(err)
	w.lag()
	w.must(b.Vote(w.ctx, twopc.Abort))
	w.must(behindErr(w, func(ctx context.Context) error { return a.Vote(ctx, twopc.Commit) }))
	for name, learn := range map[string]func(context.Context) (twopc.Decision, error){
		"await": here.Await, "decide": here.Decide,
		"abort": func(ctx context.Context) (twopc.Decision, error) { return here.Abort(ctx, "late") },
	} {
		if d, err := learn(w.ctx); err != nil || d.Outcome != twopc.Abort || d.Reason == "late" {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	w.lag()
	w.must(there.End(w.ctx))
	w.must(there.Begin(w.ctx, twopc.Plan{Sites: []string{"a"}}))
	if err := behindErr(w, here.End); !errors.Is(err, twopc.ErrUndecided) {
		t.Errorf("end of what has just begun is %v", err)
	}
}

// A vote that came after the coordinator's last look does not make it abort, and a missing
// vote does not make it commit.
func TestTwoPCDecide(t *testing.T) {
	w := newWorld(t)
	here, there := both(w, func(c *client.Client) (*twopc.Transaction, error) { return twopc.New(c, "/tx", twopc.Options{}) })
	w.must(there.Begin(w.ctx, twopc.Plan{Sites: []string{"a", "b"}, Ephemeral: true}))
	w.lag()
	var sites []*twopc.Site
	for _, name := range []string{"a", "b"} {
		s, err := there.Join(w.ctx, name)
		w.must(err)
		sites = append(sites, s)
	}
	done := begin(w, here.Decide)
	for _, s := range sites {
		w.must(s.Vote(w.ctx, twopc.Commit))
	}
	w.e.CatchUp(w.id)
	if d := <-done; d.err != nil || d.value.Outcome != twopc.Commit {
		t.Errorf("decided %+v, %v", d.value, d.err)
	}
	list, err := w.there.Children(w.ctx, "/tx")
	if w.must(err); !slices.Contains(list.Names, "decision") {
		t.Errorf("there are %q", list.Names)
	}
}
