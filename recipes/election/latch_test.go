package election_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// start returns a latch that has joined; it is closed when the test ends.
func start(t testing.TB, c *client.Client, path string, o election.Options) *election.Latch {
	t.Helper()
	l, err := election.NewLatch(c, path, o)
	if err == nil {
		err = l.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("close = %v", err)
		}
	})
	return l
}

// await returns the leadership of a latch once it has it.
func await(w *trial.World, l *election.Latch) *election.Leadership {
	w.Helper()
	leadership, err := l.Await(w.Ctx)
	w.Must(err)
	return leadership
}

// reach waits until a latch is in that state.
func reach(w *trial.World, l *election.Latch, state election.State) {
	w.Helper()
	for status, err := range l.Follow(w.Ctx) {
		w.Must(err)
		if status.State == state {
			return
		}
	}
}

// ids returns the data of the candidates, in order.
func ids(w *trial.World, e *election.Election) []string {
	w.Helper()
	candidates, err := e.Contenders(w.Ctx)
	w.Must(err)
	var ids []string
	for _, c := range candidates {
		ids = append(ids, string(c.Data))
	}
	return ids
}

// Candidates lead one after the other, in the order in which they came.
func TestLatch(t *testing.T) {
	for layout := election.CuratorLatch; layout <= election.ElectionSupport; layout++ {
		t.Run(layout.String(), func(t *testing.T) {
			w := trial.New(t)
			a := start(t, w.C, "/app/leader", election.Options{Options: hold.Options{Data: []byte("a")}, Layout: layout})
			first := await(w, a)
			b := start(t, w.C, "/app/leader", election.Options{Options: hold.Options{Data: []byte("b")}, Layout: layout})
			reach(w, b, election.Standing)
			c := start(t, w.Look, "/app/leader", election.Options{Options: hold.Options{Data: []byte("c")}, Layout: layout})
			reach(w, c, election.Standing)
			if got := ids(w, a.Election()); !slices.Equal(got, []string{"a", "b", "c"}) {
				t.Errorf("candidates are %q", got)
			}
			w.Must(first.Release(w.Ctx))
			if err := context.Cause(first.Context()); err == nil || errors.Is(err, recipes.ErrLost) {
				t.Errorf("who has resigned has a context that ends with %v", err)
			}
			second := await(w, b)
			if second.Token() <= first.Token() {
				t.Errorf("the second leader has token %v, the first had %v", second.Token(), first.Token())
			}
			reach(w, a, election.Standing)
			if got := ids(w, a.Election()); !slices.Equal(got, []string{"b", "c", "a"}) {
				t.Errorf("candidates are %q", got)
			}
			w.Must(b.Close(w.Ctx))
			await(w, c)
			w.Must(c.Close(w.Ctx))
			await(w, a)
			w.Must(a.Close(w.Ctx))
			if got := w.Children("/app/leader"); len(got) > 0 {
				t.Errorf("there are %q left", got)
			}
		})
	}
}
