package election_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// runner is one that runs for master until it is closed, by either of the two ways.
type runner struct {
	master  *election.Master
	changes chan election.Change
	close   func(ctx context.Context) error
}

func newMaster(t testing.TB, c *client.Client, path, id string) *election.Master {
	t.Helper()
	m, err := election.NewMaster(c, path, hold.Options{Data: []byte(id)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// asynchronous runs as a Campaign.
func asynchronous(t testing.TB, c *client.Client, path, id string) *runner {
	t.Helper()
	r := &runner{master: newMaster(t, c, path, id), changes: make(chan election.Change, 1000)}
	g := r.master.Campaign(func(change election.Change) { r.changes <- change })
	r.close = g.Close
	return r.cleanup(t)
}

// synchronous runs with RunAgain, whose function returns when mastership is lost or released.
func synchronous(t testing.TB, c *client.Client, path, id string) *runner {
	t.Helper()
	r := &runner{master: newMaster(t, c, path, id), changes: make(chan election.Change, 1000)}
	ctx, stop := context.WithCancelCause(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		err := r.master.RunAgain(ctx, func(ctx context.Context, ms *election.Mastership) error {
			r.changes <- election.Change{State: election.Leading, Mastership: ms}
			<-ctx.Done()
			return nil
		})
		r.changes <- election.Change{State: election.Over, Err: err}
	})
	r.close = func(context.Context) error {
		stop(recipes.ErrClosed)
		running.Wait()
		return nil
	}
	return r.cleanup(t)
}

func (r *runner) cleanup(t testing.TB) *runner {
	t.Cleanup(func() {
		if err := r.close(context.Background()); err != nil {
			t.Errorf("close = %v", err)
		}
	})
	return r
}

// until waits for a change to that state and returns it.
func (r *runner) until(w *trial.World, state election.State) election.Change {
	w.Helper()
	for {
		select {
		case change := <-r.changes:
			if change.State == state {
				return change
			}
			if change.State == election.Over {
				w.Fatalf("it is over: %v, and was to be %v", change.Err, state)
			}
		case <-w.Ctx.Done():
			w.Fatalf("it is never %v", state)
		}
	}
}

// ways are those to run for master.
var ways = []struct {
	name  string
	start func(t testing.TB, c *client.Client, path, id string) *runner
}{{"synchronous", synchronous}, {"asynchronous", asynchronous}}

// Mastership passes to another one when the master releases it, when it stops running, and
// when its node is deleted.
func TestMaster(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			w := trial.New(t)
			a := way.start(t, w.C, "/app/master", "a")
			first := a.until(w, election.Leading).Mastership
			b := way.start(t, w.Look, "/app/master", "b")
			isMaster(w, b.master, "a", first.Token())

			w.Must(w.Look.Delete(w.Ctx, "/app/master", client.AnyVersion))
			<-first.Context().Done()
			if err := first.Release(w.Ctx); !errors.Is(err, recipes.ErrLost) {
				t.Errorf("release of who was deposed = %v", err)
			}
			var second election.Change
			var next *runner
			for next == nil { // the former master may be quicker
				select {
				case second = <-a.changes:
					if second.State == election.Leading {
						next = a
					}
				case second = <-b.changes:
					if second.State == election.Leading {
						next = b
					}
				case <-w.Ctx.Done():
					t.Fatal("nobody is master")
				}
			}
			if second.Mastership.Token() <= first.Token() {
				t.Errorf("the second master has token %v, the first had %v", second.Mastership.Token(), first.Token())
			}
			w.Must(next.close(w.Ctx))
			other := a
			if next == a {
				other = b
			}
			third := other.until(w, election.Leading).Mastership
			w.Must(third.Release(w.Ctx))
			if err := third.Release(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
				t.Errorf("second resign = %v", err)
			}
			if err := third.Err(); !errors.Is(err, recipes.ErrNotHeld) {
				t.Errorf("error of who has resigned = %v", err)
			}
			other.until(w, election.Leading)
			w.Must(other.close(w.Ctx))
			if err := other.over(w); !errors.Is(err, recipes.ErrClosed) {
				t.Errorf("it ends with %v", err)
			}
			if got := w.Children("/app"); len(got) > 0 {
				t.Errorf("there are %q left", got)
			}
		})
	}
}

// over waits for the end and returns its reason.
func (r *runner) over(w *trial.World) error {
	for {
		select {
		case change := <-r.changes:
			if change.State == election.Over {
				return change.Err
			}
		case <-w.Ctx.Done():
			w.Fatal("it is never over")
		}
	}
}

func isMaster(w *trial.World, m *election.Master, id string, token client.Zxid) {
	w.Helper()
	now, ok, err := m.Current(w.Ctx)
	w.Must(err)
	if !ok || string(now.Data) != id || now.Token != token || now.Session == 0 {
		w.Errorf("master is %+v, %v, want %s with token %v", now, ok, id, token)
	}
}

// The book's own program has nothing in the data but its ID, and takes part.
func TestMasterOfTheBook(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			w := trial.New(t)
			made, err := w.Look.Create(w.Ctx, "/master", []byte("2a4f"), client.CreateOptions{Mode: client.Ephemeral, Stat: true})
			w.Must(err)
			a := way.start(t, w.C, "/master", "a")
			isMaster(w, a.master, "2a4f", made.Stat.Czxid)
			w.Must(w.Proxy.AwaitNotifications(w.Ctx, 0))
			w.Must(w.Look.Delete(w.Ctx, "/master", client.AnyVersion))
			ms := a.until(w, election.Leading).Mastership
			isMaster(w, a.master, "a", ms.Token())
			node, err := w.Look.Get(w.Ctx, "/master")
			w.Must(err)
			if !strings.HasPrefix(string(node.Data), "a ") || len(node.Data) != len("a ")+36 {
				t.Errorf("the master's data are %q", node.Data)
			}
		})
	}
}

// Which requests it takes to become master, and to be the next one.
func TestTraceMaster(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			w := trial.New(t)
			_, err := w.Look.Create(w.Ctx, "/master", []byte("2a4f"), client.CreateOptions{Mode: client.Ephemeral, Stat: true})
			w.Must(err)
			rec := w.Record()
			a := way.start(t, w.C, "/master", "a")
			awaitWatches(w, rec, 1)
			answered(w)
			w.Must(w.Look.Delete(w.Ctx, "/master", client.AnyVersion))
			a.until(w, election.Leading)
			awaitWatches(w, rec, 2)
			w.Must(a.close(w.Ctx))
			awaitDeletions(w, rec, 2, "/master")
			mustTrace(w, rec,
				"create2 /master", "getData /master watch", // another one is
				"event NodeDeleted /master",
				"create2 /master", "getData /master watch", // now this one is
				"getData /master", "delete /master", "event NodeDeleted /master")
		})
	}
}
