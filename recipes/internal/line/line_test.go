package line_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

func newLine(c *client.Client) *line.Line {
	return &line.Line{Client: c, Path: "/line", Layout: &line.Layout{Labels: []string{"place-"}}}
}

// join makes a place.
func join(w *trial.World, l *line.Line) *line.Place {
	w.Helper()
	p, err := l.Join(w.Ctx, 0, []byte("data"))
	w.Must(err)
	return p
}

func TestList(t *testing.T) {
	w := trial.New(t)
	l := newLine(w.C)
	if got, err := l.List(w.Ctx); len(got) != 0 || err != nil {
		t.Errorf("without the path: %v, %v", got, err)
	}
	var want []string
	for range 3 {
		want = append(want, line.Base(join(w, l).Path()))
	}
	list, err := l.List(w.Ctx)
	w.Must(err)
	var got []string
	for _, e := range list {
		got = append(got, e.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("list is %q, want %q", got, want)
	}
	_, err = w.Look.Create(w.Ctx, "/line/config", nil, client.CreateOptions{})
	w.Must(err)
	if _, err := l.List(w.Ctx); !errors.Is(err, recipes.ErrLayout) || !strings.Contains(err.Error(), `"config"`) {
		t.Errorf("with somebody else's child: %v", err)
	}
	l.Ignore = func(name string) bool { return name == "config" }
	if got, err := l.List(w.Ctx); len(got) != 3 || err != nil {
		t.Errorf("with a child that may be there: %v, %v", got, err)
	}
}

// What is above is made as containers, also if the servers delete one in between.
func TestJoinMakesThePath(t *testing.T) {
	w := trial.New(t)
	var deleted bool
	c := w.Other(func(o *client.Options) {
		o.Trace.Request = func(_ context.Context, op client.OpCode, path string, _ time.Duration, _ client.Zxid, err error) {
			if op == jute.OpCreateContainer && strings.HasSuffix(path, "/a/line") && err == nil && !deleted {
				deleted = true
				w.Must(w.Look.Delete(w.Ctx, "/a/line", client.AnyVersion))
			}
		}
	})
	l := newLine(c)
	l.Path, l.ACL = "/a/line", client.OpenACL()
	p := join(w, l)
	if !deleted {
		t.Error("no container was made")
	}
	node, err := w.Look.Get(w.Ctx, p.Path())
	id := c.Session().ID()
	if err != nil || string(node.Data) != "data" || node.Stat.EphemeralOwner != id || node.Stat.Czxid != p.Token() || p.Session() != id {
		t.Errorf("the place is %q, %+v, %v", node.Data, node.Stat, err)
	}
	w.Must(p.Leave(w.Ctx))
	w.Must(p.Leave(w.Ctx)) // it is gone already
}

// If a place cannot be created, Join returns an error and there is no place.
func TestJoinThatIsForbidden(t *testing.T) {
	w := trial.New(t)
	_, err := w.Look.Create(w.Ctx, "/line", nil, client.CreateOptions{ACL: client.ReadACL()})
	w.Must(err)
	if _, err := newLine(w.C).Join(w.Ctx, 0, nil); !errors.Is(err, client.ErrNoAuth) {
		t.Errorf("join = %v", err)
	}
}

func TestJoinInASessionThatHasEnded(t *testing.T) {
	w := trial.New(t)
	id := w.C.Session().ID()
	w.Proxy.ExpireSession(id)
	_, err := newLine(w.C).Join(w.Ctx, 0, nil)
	if !errors.Is(err, recipes.ErrLost) || !errors.Is(err, client.ErrSessionExpired) {
		t.Errorf("join = %v", err)
	}
}

// noWatch fails if C has a watch at the path.
func noWatch(w *trial.World, path string) {
	w.Helper()
	if err := w.C.Session().CheckWatches(w.Ctx, path, client.AnyWatches); !errors.Is(err, client.ErrNoWatcher) {
		w.Errorf("a watch of %s is left: %v", path, err)
	}
}

// The one before goes between the list and the watch: then there is no wait.
func TestAwaitLooksAgain(t *testing.T) {
	w := trial.New(t)
	first := join(w, newLine(w.Look))
	second := join(w, newLine(w.C))
	rec := w.Record()
	rounds := 0
	w.Must(second.Await(w.Ctx, func(entries []line.Entry, own int) int {
		if rounds++; rounds == 1 {
			w.Must(first.Leave(w.Ctx))
		}
		return line.First(entries, own)
	}))
	got := w.Trace(rec)
	want := []string{"getChildren2 /line", "getData /line/_c_GUID-place-# watch", "getChildren2 /line"}
	if !slices.Equal(got, want) {
		t.Errorf("trace is %q, want %q", got, want)
	}
	noWatch(w, first.Path())
}

// A waiter that is woken checks whether it is its turn: the one before may have given up.
func TestAwaitOfOneWhoGivesUp(t *testing.T) {
	w := trial.New(t)
	first := join(w, newLine(w.Look))
	second := join(w, newLine(w.Look))
	third := join(w, newLine(w.C))
	behind := make(chan int, 10)
	done := make(chan error, 1)
	go func() {
		done <- third.Await(w.Ctx, func(entries []line.Entry, own int) int {
			behind <- own
			return line.First(entries, own)
		})
	}()
	for _, step := range []struct {
		before int // how many
		goes   *line.Place
	}{{2, second}, {1, first}, {0, nil}} {
		if got := <-behind; got != step.before {
			t.Errorf("it is behind %d, want %d", got, step.before)
		}
		if step.goes != nil {
			w.Must(step.goes.Leave(w.Ctx))
		}
	}
	w.Must(<-done)
}

// A change of the data of the place before does not end the wait.
func TestAwaitOfDataThatChange(t *testing.T) {
	w := trial.New(t)
	first := join(w, newLine(w.Look))
	second := join(w, newLine(w.C))
	rec := w.Record()
	done := make(chan error, 1)
	go func() { done <- second.Await(w.Ctx, line.First) }()
	waits := func(e zktest.Traced) bool { return e.Watch }
	w.Must(rec.Await(w.Ctx, "wait", waits))
	w.Must(w.C.Sync(w.Ctx, "/")) // the watch is set, too
	rec.Take()
	_, err := w.Look.Set(w.Ctx, first.Path(), []byte("new"), client.AnyVersion)
	w.Must(err)
	w.Must(rec.Await(w.Ctx, "another wait", waits))
	w.Must(first.Leave(w.Ctx))
	w.Must(<-done)
}

// A waiter that gives up leaves no watch.
func TestAwaitThatEnds(t *testing.T) {
	w := trial.New(t)
	first := join(w, newLine(w.Look))
	second := join(w, newLine(w.C))
	ended := errors.New("ended")
	ctx, end := context.WithCancelCause(w.Ctx)
	rec := w.Record()
	done := make(chan error, 1)
	go func() { done <- second.Await(ctx, line.First) }()
	w.Must(rec.Await(w.Ctx, "wait", func(e zktest.Traced) bool { return e.Watch }))
	w.Must(w.C.Sync(w.Ctx, "/")) // the watch is set, too
	end(ended)
	if err := <-done; !errors.Is(err, ended) {
		t.Errorf("await = %v", err)
	}
	noWatch(w, first.Path())
	if ok, err := second.Try(w.Ctx, line.First); ok || err != nil {
		t.Errorf("try = %v, %v", ok, err)
	}
	w.Must(first.Leave(w.Ctx))
	if ok, err := second.Try(w.Ctx, line.First); !ok || err != nil {
		t.Errorf("try of the first = %v, %v", ok, err)
	}
}

func TestAwaitOfAPlaceThatIsGone(t *testing.T) {
	w := trial.New(t)
	p := join(w, newLine(w.C))
	w.Must(w.Look.Delete(w.Ctx, p.Path(), client.AnyVersion))
	if err := p.Await(w.Ctx, line.First); !errors.Is(err, recipes.ErrLost) || !strings.Contains(err.Error(), "was deleted") {
		t.Errorf("await = %v", err)
	}
}
