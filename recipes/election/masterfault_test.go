package election_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// A candidate runs while another one is master, becomes master when that one is
// deleted, releases, and becomes master again. A create that succeeded without a reply makes
// it master, and one that failed is repeated: there is a master as long as somebody runs. It
// ends only if its session does, and there is no new one. No node is left.
func TestEveryFaultMaster(t *testing.T) {
	for _, way := range ways {
		for _, renew := range []bool{false, true} {
			t.Run(way.name+map[bool]string{true: "/renewed"}[renew], func(t *testing.T) {
				trial.Every(t, renew, func(w *trial.World) {
					w.Must(settle.Ensure(w.Ctx, w.Look, "/app", client.CreateOptions{Mode: client.Container}))
					made, err := w.Look.Create(w.Ctx, "/app/master", []byte("other"), client.CreateOptions{Mode: client.Ephemeral, Stat: true})
					w.Must(err)
					a := way.start(w, w.C, "/app/master", "a")
					if w.Fault == "unharmed" {
						w.Must(w.Proxy.AwaitRequests(w.Ctx, jute.OpGetData, 1))
						answered(w)
					}
					w.Must(w.Look.Delete(w.Ctx, "/app/master", client.AnyVersion))
					for last, terms := made.Stat.Czxid, 0; terms < 2; terms++ {
						ms := a.elected(w)
						if ms == nil && w.Expires && !renew {
							break
						}
						if ms == nil {
							w.Fatalf("%s: it is over", w.Fault)
						}
						if ms.Token() <= last {
							w.Errorf("%s: token %v comes after %v", w.Fault, ms.Token(), last)
						}
						last = ms.Token()
						if !w.Expires {
							isMaster(w, a.master, "a", ms.Token())
						}
						if err := ms.Release(w.Ctx); err != nil && !over(w, err) {
							w.Errorf("%s: release = %v", w.Fault, err)
						}
					}
					w.Must(a.close(w.Ctx))
					w.AwaitChildren("/app", 0)
				})
			})
		}
	}
}

// elected waits for the next mastership, and returns nil if there won't be one.
func (r *runner) elected(w *trial.World) *election.Mastership {
	w.Helper()
	for {
		select {
		case change := <-r.changes:
			if change.State == election.Over {
				if !errors.Is(change.Err, client.ErrSessionExpired) {
					w.Errorf("%s: it is over: %v", w.Fault, change.Err)
				}
				return nil
			}
			if change.State == election.Leading {
				return change.Mastership
			}
		case <-w.Ctx.Done():
			w.Fatalf("%s: nobody is master, though one runs", w.Fault)
		}
	}
}

// A candidate that gives up while it runs for master leaves no node, whatever breaks then,
// and does not delete another one's.
func TestEveryFaultMasterGivesUp(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			trial.Every(t, false, func(w *trial.World) {
				a := way.start(w, w.C, "/master", "a")
				awaitCreate(w)
				w.Must(a.close(w.Ctx))
				if err := a.over(w); !errors.Is(err, recipes.ErrClosed) && !over(w, err) {
					w.Errorf("%s: it ends with %v", w.Fault, err)
				}
				if names := w.AwaitChildren("/", 0); len(names) > 0 {
					w.Errorf("%s: there are %q left", w.Fault, names)
				}
				_, err := w.Look.Create(w.Ctx, "/master", []byte("other"), client.CreateOptions{Mode: client.Ephemeral})
				w.Must(err)
				_ = w.C.Close(w.Ctx) // and what continues in the background
				if names := w.Children("/"); len(names) != 1 {
					w.Errorf("%s: somebody else's node is gone", w.Fault)
				}
			})
		})
	}
}

// awaitCreate waits until C has asked for a node, or its connection has broken before.
func awaitCreate(w *trial.World) {
	ctx, cancel := context.WithCancel(w.Ctx)
	defer cancel()
	var waiting sync.WaitGroup
	for op, n := range map[client.OpCode]int{jute.OpCreate2: 1, jute.OpCreateSession: 2} {
		waiting.Go(func() {
			defer cancel()
			_ = w.Proxy.AwaitRequests(ctx, op, n)
		})
	}
	waiting.Wait()
}
