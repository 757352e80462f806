package barrier_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/barrier"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// double returns the barrier of n at /b.
func double(t testing.TB, c *client.Client, n int) *barrier.Double {
	t.Helper()
	b, err := barrier.NewDouble(c, "/b", n, barrier.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// entered is what an Enter that runs beside the test comes to.
type entered struct {
	in  *barrier.Inside
	err error
}

func enter(ctx context.Context, b *barrier.Double) <-chan entered {
	done := make(chan entered, 1)
	go func() {
		in, err := b.Enter(ctx)
		done <- entered{in, err}
	}()
	return done
}

func leave(ctx context.Context, in *barrier.Inside) <-chan error {
	done := make(chan error, 1)
	go func() { done <- in.Release(ctx) }()
	return done
}

// enterAll has clients enter one after the other, and returns them when all are in.
func enterAll(w *trial.World, n int, clients ...*client.Client) []*barrier.Inside {
	w.Helper()
	var waiting []<-chan entered
	for i, c := range clients {
		waiting = append(waiting, enter(w.Ctx, double(w, c, n)))
		if i < n-1 {
			w.AwaitChildren("/b", i+1)
		}
	}
	var all []*barrier.Inside
	for _, done := range waiting {
		e := <-done
		w.Must(e.err)
		all = append(all, e.in)
	}
	return all
}

// leaveAll has all leave at once.
func leaveAll(w *trial.World, all ...*barrier.Inside) {
	w.Helper()
	var wg sync.WaitGroup
	for _, in := range all {
		wg.Go(func() {
			if err := in.Release(w.Ctx); err != nil {
				w.Errorf("leave = %v", err)
			}
		})
	}
	wg.Wait()
}

func mustBeEmpty(w *trial.World) {
	w.Helper()
	if names := w.Children("/b"); len(names) != 0 {
		w.Errorf("left on the tree: %q", names)
	}
}

// All begin and end together, and again and again with the same barrier.
func TestDoubleEnterAndLeave(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	clients := []*client.Client{w.C, w.Other(), w.Other()}
	for range 5 {
		leaveAll(w, enterAll(w, 3, clients...)...)
		mustBeEmpty(w)
	}
}

// A participant that enters the next round early is not waited for by one that leaves the
// last round: each would wait for the other.
func TestDoubleNextRoundBeginsWhileTheLastEnds(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	var wg sync.WaitGroup
	for _, c := range []*client.Client{w.C, w.Other(), w.Other()} {
		b := double(w, c, 3)
		wg.Go(func() {
			for range 20 {
				in, err := b.Enter(w.Ctx)
				if err != nil {
					w.Errorf("enter = %v", err)
					return
				}
				if err := in.Release(w.Ctx); err != nil {
					w.Errorf("leave = %v", err)
				}
			}
		})
	}
	wg.Wait()
	mustBeEmpty(w)
}

func TestDoubleOneIsEnoughForOne(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	leaveAll(w, enterAll(w, 1, w.C)...)
	mustBeEmpty(w)
}

// A participant that comes while the barrier is open passes, and those that leave wait for it.
func TestDoubleMoreThanN(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	all := enterAll(w, 2, w.C, w.Other())
	late, err := double(w, w.Other(), 2).Enter(w.Ctx)
	w.Must(err)
	done := []<-chan error{leave(w.Ctx, all[0]), leave(w.Ctx, all[1])}
	w.Must(late.Release(w.Ctx))
	w.Must(<-done[0])
	w.Must(<-done[1])
	mustBeEmpty(w)
}

// One that has failed inside does not keep the others from leaving, and knows it.
func TestDoubleFailedParticipantDoesNotBlockLeave(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	all := enterAll(w, 3, w.C, w.Other(), w.Other())
	done := []<-chan error{leave(w.Ctx, all[1]), leave(w.Ctx, all[2])}
	id := w.C.Session().ID()
	w.Proxy.ExpireSession(id)
	w.Must(<-done[0])
	w.Must(<-done[1])
	<-all[0].Context().Done()
	mustBe(w, context.Cause(all[0].Context()), recipes.ErrLost)
	mustBe(w, all[0].Release(w.Ctx), recipes.ErrLost)
}

// A participant whose node is deleted learns of it.
func TestDoubleDeletedParticipantIsLost(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	in := enterAll(w, 1, w.C)[0]
	w.Must(w.Look.Delete(w.Ctx, "/b/"+w.Children("/b")[0], client.AnyVersion))
	<-in.Context().Done()
	mustBe(w, context.Cause(in.Context()), recipes.ErrLost)
	mustBe(w, in.Release(w.Ctx), recipes.ErrLost)
}

// A "ready" that a crash of all has left behind lets nobody in, and is in nobody's way.
func TestDoubleStaleReady(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	w.Must(settle.Ensure(w.Ctx, w.Look, "/b/ready", client.CreateOptions{}))
	first := enter(w.Ctx, double(w, w.C, 2))
	w.AwaitChildren("/b", 2)
	w.Must(w.Look.Sync(w.Ctx, "/"))
	if got := len(first); got != 0 {
		t.Error("one has entered a barrier of two")
	}
	second, err := double(w, w.Other(), 2).Enter(w.Ctx)
	w.Must(err)
	e := <-first
	w.Must(e.err)
	leaveAll(w, e.in, second)
	mustBeEmpty(w)
}

// A participant that gives up before the barrier opens leaves nothing, and does not count.
func TestDoubleGivesUp(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	why := errors.New("no more time")
	ctx, cancel := context.WithCancelCause(w.Ctx)
	done := enter(ctx, double(w, w.C, 2))
	w.AwaitChildren("/b", 1)
	cancel(why)
	e := <-done
	mustBe(w, e.err, why)
	w.AwaitChildren("/b", 0) // if the create's reply was given up, too, it is seen to in the background
	if err := w.C.Session().CheckWatches(w.Ctx, "/b/ready", client.AnyWatches); !errors.Is(err, client.ErrNoWatcher) {
		t.Errorf("check of the watch = %v, want none", err)
	}
	leaveAll(w, enterAll(w, 2, w.C, w.Other())...)
}

func TestDoubleLeaveGivesUp(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	all := enterAll(w, 2, w.C, w.Other())
	ctx, cancel := context.WithCancel(w.Ctx)
	cancel()
	mustBe(w, all[0].Release(ctx), context.Canceled)
	w.Must(all[1].Release(w.Ctx))
	mustBeEmpty(w)
	mustBe(w, all[0].Release(w.Ctx), recipes.ErrNotHeld)
	mustBe(w, context.Cause(all[1].Context()), context.Canceled)
}

func TestDoubleBadUse(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	for _, bad := range []struct {
		path string
		n    int
		says string
	}{
		{"b", 2, "path"},
		{"/", 2, "path"},
		{"/b/", 2, "path"},
		{"/b", 0, "n is 0"},
		{"/b", -1, "n is -1"},
	} {
		_, err := barrier.NewDouble(w.C, bad.path, bad.n, barrier.Options{})
		if err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("New(%q, %d) = %v, want an error with %q", bad.path, bad.n, err, bad.says)
		}
	}
	if _, err := barrier.NewDouble(nil, "/b", 1, barrier.Options{}); err == nil {
		t.Error("New without a client has no error")
	}
}

func TestDoubleForeignChild(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	w.Must(settle.Ensure(w.Ctx, w.Look, "/b/lock-0000000001", client.CreateOptions{}))
	_, err := double(w, w.C, 1).Enter(w.Ctx)
	mustBe(w, err, recipes.ErrLayout)
	if !strings.Contains(err.Error(), "lock-0000000001") {
		t.Errorf("error is %v, want the child's name in it", err)
	}
	if got := w.Children("/b"); !slices.Equal(got, []string{"lock-0000000001"}) {
		t.Errorf("left on the tree: %q", got)
	}
}

func TestDoubleForbidden(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	_, err := w.Look.Create(w.Ctx, "/b", nil, client.CreateOptions{ACL: client.ReadACL()})
	w.Must(err)
	_, err = double(w, w.C, 1).Enter(w.Ctx)
	mustBe(w, err, client.ErrNoAuth)
	mustBeEmpty(w)
}

// Nodes have the ACL and the name that they were to have, and missing parents are made.
func TestDoubleOptions(t *testing.T) {
	t.Parallel()
	w := trial.New(t)
	w.Must(w.C.Session().AddAuth(w.Ctx, "digest", []byte("me:secret")))
	b, err := barrier.NewDouble(w.C, "/far/away", 1, barrier.Options{Name: "host-7", ACL: client.CreatorACL()})
	w.Must(err)
	in, err := b.Enter(w.Ctx)
	w.Must(err)
	defer in.Release(w.Ctx)
	list, err := w.C.Children(w.Ctx, "/far/away")
	w.Must(err)
	for _, name := range list.Names {
		node, err := w.C.Get(w.Ctx, "/far/away/"+name)
		if want := "host-7"; err != nil || name != "ready" && string(node.Data) != want {
			t.Errorf("%s has %q, %v, want %q", name, node.Data, err, want)
		}
	}
	_, err = w.Look.Children(w.Ctx, "/far/away")
	mustBe(w, err, client.ErrNoAuth)
}
