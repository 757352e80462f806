package election_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// over reports whether err is that a session ended, as it may do in this run.
func over(w *trial.World, err error) bool {
	return w.Expires && (errors.Is(err, client.ErrSessionExpired) || errors.Is(err, recipes.ErrLost))
}

// A latch leads, acknowledges, releases and leads again. It loses leadership only with its
// session, and continues if there is another one. No node is left.
func TestEveryFaultLatch(t *testing.T) {
	for _, layout := range []election.Layout{election.CuratorLatch, election.ElectionSupport} {
		for _, renew := range []bool{false, true} {
			if renew != (layout == election.CuratorLatch) && testing.Short() {
				continue
			}
			t.Run(layout.String()+map[bool]string{true: "/renewed"}[renew], func(t *testing.T) {
				trial.Every(t, renew, func(w *trial.World) {
					l, err := election.NewLatch(w.C, "/app/leader", election.Options{Options: hold.Options{Data: []byte("a")}, Layout: layout})
					w.Must(err)
					w.Must(l.Start())
					last, rounds := client.Zxid(0), 0
					for rounds < 2 {
						token, err := lead(w, l, last)
						if err == nil {
							rounds++
						} else if !over(w, err) {
							w.Fatalf("%s: %v", w.Fault, err)
						} else if !renew {
							break
						}
						last = max(last, token)
					}
					w.Must(l.Close(w.Ctx))
					w.AwaitChildren("/app/leader", 0)
					w.AwaitChildren("/app/leader-acknowledged", 0)
				})
			})
		}
	}
}

// lead leads once, and returns its token, which has to be larger than the last one.
func lead(w *trial.World, l *election.Latch, last client.Zxid) (client.Zxid, error) {
	leadership, err := l.Await(w.Ctx)
	if err != nil {
		return 0, err
	}
	token := leadership.Token()
	if token <= last {
		w.Errorf("%s: token %v comes after %v", w.Fault, token, last)
	}
	if err := leadership.Acknowledge(w.Ctx, []byte("ready")); err != nil {
		return token, err
	}
	if _, err := w.C.Multi(w.Ctx, leadership.Guard(client.CreateOp("/done-", nil, client.CreateOptions{Mode: client.PersistentSequential}))...); err != nil && !client.IsAmbiguous(err) && !over(w, err) && !(w.Expires && errors.Is(err, client.ErrNoNode)) {
		w.Errorf("%s: guarded change = %v", w.Fault, err)
	}
	if leader, _, err := anyLayout(w).Leader(w.Ctx); !w.Expires {
		w.Must(err)
		if leader.Token == token && (!leader.Acknowledged || string(leader.Acknowledgement) != "ready") {
			w.Errorf("%s: leader is %+v", w.Fault, leader)
		}
	}
	return token, leadership.Release(w.Ctx)
}

// anyLayout returns the election, of whatever layout, as an undisturbed client sees it.
func anyLayout(w *trial.World) *election.Election {
	w.Helper()
	layout := election.CuratorLatch
	if names := w.Children("/app/leader"); len(names) > 0 && strings.HasPrefix(names[0], "n_") {
		layout = election.ElectionSupport
	}
	e, err := election.New(w.Look, "/app/leader", election.Options{Layout: layout})
	w.Must(err)
	return e
}

// A candidate waits between a leader and another candidate, which are undisturbed. It leads
// when its turn comes, unless its session has ended: then the one after it leads. If it gives
// up waiting it leaves no node.
func TestEveryFaultStanding(t *testing.T) {
	for _, layout := range []election.Layout{election.CuratorLatch, election.ElectionSupport} {
		t.Run(layout.String(), func(t *testing.T) {
			trial.Every(t, false, func(w *trial.World) {
				first := start(w, w.Look, "/e", election.Options{Options: hold.Options{Data: []byte("first")}, Layout: layout})
				await(w, first)
				e, err := election.New(w.C, "/e", election.Options{Options: hold.Options{Data: []byte("middle")}, Layout: layout})
				w.Must(err)
				leads, stop := make(chan struct{}), make(chan struct{})
				result := make(chan error, 1)
				go func() {
					result <- e.Run(w.Ctx, func(ctx context.Context, _ *election.Leadership) error {
						close(leads)
						select {
						case <-stop:
						case <-ctx.Done():
						}
						return nil
					})
				}()
				names := awaitOther(w, "/e", 1, result)
				last := start(w, w.Other(), "/e", election.Options{Options: hold.Options{Data: []byte("last")}, Layout: layout})
				reach(w, last, election.Standing)
				w.Must(first.Close(w.Ctx))
				turn, done := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(done)
					if _, err := last.Await(w.Ctx); err == nil {
						close(turn)
					}
				}()
				select {
				case <-leads:
					select {
					case <-turn: // it may be that middle's session has ended
						if !w.Expires {
							w.Errorf("%s: two lead: %q were before", w.Fault, names)
						}
					default:
					}
					close(stop)
					err = <-result
				case err = <-result:
				}
				if err != nil && !over(w, err) {
					w.Errorf("%s: run = %v", w.Fault, err)
				}
				<-turn
				<-done
				w.Must(last.Close(w.Ctx))
				w.AwaitChildren("/e", 0)
			})
		})
	}
}

// awaitOther waits until there are more than n nodes at path, or there is a result.
func awaitOther(w *trial.World, path string, n int, result chan error) []string {
	w.Helper()
	for {
		list, err := w.Look.ChildrenW(w.Ctx, path)
		w.Must(err)
		if len(list.Names) > n {
			w.Must(list.Watch.Close(w.Ctx))
			return list.Names
		}
		select {
		case <-list.Watch.Events():
		case err := <-result:
			result <- err
			w.Must(list.Watch.Close(w.Ctx))
			return list.Names
		case <-w.Ctx.Done():
			w.Fatal("nobody joins")
		}
	}
}

// A candidate that gives up while it joins or waits leaves no node, whatever breaks then.
func TestEveryFaultGivingUp(t *testing.T) {
	for _, layout := range []election.Layout{election.RecipePage, election.ElectionSupport} {
		t.Run(layout.String(), func(t *testing.T) {
			trial.Every(t, false, func(w *trial.World) {
				first := start(w, w.Look, "/e", election.Options{Options: hold.Options{Data: []byte("first")}, Layout: layout})
				await(w, first)
				e, err := election.New(w.C, "/e", election.Options{Options: hold.Options{Data: []byte("second")}, Layout: layout})
				w.Must(err)
				ctx, giveUp := context.WithCancelCause(w.Ctx)
				enough := errors.New("enough")
				result := make(chan error, 1)
				go func() {
					result <- e.Run(ctx, func(context.Context, *election.Leadership) error {
						w.Errorf("%s: the second leads", w.Fault)
						return nil
					})
				}()
				awaitOther(w, "/e", 1, result)
				giveUp(enough)
				if err := <-result; !errors.Is(err, enough) && !over(w, err) {
					w.Errorf("%s: run = %v", w.Fault, err)
				}
				w.AwaitChildren("/e", 1)
			})
		})
	}
}

// A client that waits for the leader's acknowledgement gets the one that counts: that of the
// first leader still exists, in another session, but its node does not.
func TestEveryFaultWaitAcknowledged(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		e, err := election.New(w.C, "/e", election.Options{})
		w.Must(err)
		first := start(w, w.Look, "/e", election.Options{Options: hold.Options{Data: []byte("first")}})
		old := await(w, first)
		w.Must(old.Acknowledge(w.Ctx, nil))
		second := start(w, w.Other(), "/e", election.Options{Options: hold.Options{Data: []byte("second")}})
		reach(w, second, election.Standing)
		if w.Fault == "unharmed" {
			leader, err := e.WaitAcknowledged(w.Ctx)
			w.Must(err)
			if leader.Token != old.Token() {
				w.Errorf("leader is %+v", leader)
			}
		}
		w.Must(first.Close(w.Ctx))
		leadership := await(w, second)
		told := make(chan election.Leader, 1)
		go func() {
			leader, err := e.WaitAcknowledged(w.Ctx)
			if err != nil {
				w.Errorf("%s: wait = %v", w.Fault, err)
			}
			told <- leader
		}()
		w.Must(leadership.Acknowledge(w.Ctx, []byte("go")))
		if leader := <-told; string(leader.Data) != "second" || leader.Token != leadership.Token() || string(leader.Acknowledgement) != "go" {
			w.Errorf("%s: leader is %+v", w.Fault, leader)
		}
		candidates, err := e.Contenders(w.Ctx)
		if over(w, err) {
			candidates, err = e.Contenders(w.Ctx)
		}
		w.Must(err)
		if !slices.ContainsFunc(candidates, func(c hold.Contender) bool { return c.Token == leadership.Token() }) {
			w.Errorf("%s: candidates are %+v", w.Fault, candidates)
		}
	})
}
