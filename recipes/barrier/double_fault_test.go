package barrier_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// C is the second of two: it opens the barrier.
func TestDoubleEveryFaultAsLast(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		partner := enter(w.Ctx, double(w, w.Other(), 2))
		w.AwaitChildren("/b", 1)
		round(w, enter(w.Ctx, double(w, w.C, 2)), partner)
	})
}

// C is the first of two, and waits; its session is renewed when it has ended.
func TestDoubleEveryFaultAsFirst(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		rec := w.Record()
		ctx, cancel := context.WithCancel(w.Ctx)
		own := make(chan entered, 1)
		go func() {
			defer cancel()
			in, err := double(w, w.C, 2).Enter(w.Ctx)
			own <- entered{in, err}
		}()
		_ = rec.Await(ctx, "list", func(r zktest.Traced) bool { return r.Op == jute.OpGetChildren2 })
		round(w, own, enter(w.Ctx, double(w, w.Other(), 2)))
	})
}

// awaitNobody waits until there is no participant.
func awaitNobody(ctx context.Context, t testing.TB, c *client.Client) {
	t.Helper()
	for {
		list, err := c.ChildrenW(ctx, "/b")
		if errors.Is(err, client.ErrNoNode) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Names) == 0 || len(list.Names) == 1 && list.Names[0] == "ready" {
			_ = list.Watch.Close(ctx)
			return
		}
		if _, err := list.Watch.Next(ctx); err != nil {
			t.Fatalf("%q are there still: %v", list.Names, err)
		}
	}
}

// round ends what the two have begun. Whatever befell C: if it is in, so is the
// partner; if it is not somebody else can take its place; and the partner gets out.
func round(w *trial.World, own, partner <-chan entered) {
	w.Helper()
	e := <-own
	if e.err != nil {
		if !w.Expires {
			w.Errorf("%s: enter = %v", w.Fault, e.err)
		}
		mustBe(w, e.err, recipes.ErrLost)
		e = <-enter(w.Ctx, double(w, w.Other(), 2))
		w.Must(e.err)
	}
	p := <-partner
	w.Must(p.err)
	left := leave(w.Ctx, p.in)
	if err := e.in.Release(w.Ctx); err != nil {
		if !w.Expires {
			w.Errorf("%s: leave = %v", w.Fault, err)
		}
		mustBe(w, err, recipes.ErrLost)
	}
	w.Must(<-left)
	if names := w.Children("/b"); len(names) > 0 && !(w.Expires && slices.Equal(names, []string{"ready"})) {
		w.Errorf("%s: left on the tree: %q", w.Fault, names)
	}
	again, other := enter(w.Ctx, double(w, w.Look, 2)), enter(w.Ctx, double(w, w.Look, 2))
	a, b := <-again, <-other
	w.Must(a.err)
	w.Must(b.err)
	leaveAll(w, a.in, b.in)
	mustBeEmpty(w)
}

// Whose context ends at any point of an Enter leaves nothing but, for a while, a node
// that is on its way out.
func TestDoubleGivesUpAnywhere(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ {
		w := trial.New(t)
		partner := enter(w.Ctx, double(w, w.Other(), 2))
		w.AwaitChildren("/b", 1)
		ctx, cancel := context.WithCancel(w.Ctx)
		cut := w.Proxy.CutAfter(zktest.Nth(n, zktest.Any()))
		done := enter(ctx, double(w, w.C, 2))
		<-cut.Done()
		cancel()
		e := <-done
		if e.err == nil {
			w.Must((<-partner).err)
			w.Must(e.in.Release(w.Ctx))
			continue
		}
		mustBe(w, e.err, context.Canceled)
		substitute, err := double(w, w.Look, 2).Enter(w.Ctx)
		w.Must(err)
		p := <-partner
		w.Must(p.err)
		leaveAll(w, substitute, p.in)
		awaitNobody(w.Ctx, w, w.Look)
	}
}
