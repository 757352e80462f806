package value_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/value"
)

func counterOpen(t *testing.T, c *client.Client, o value.CounterOptions) *value.Counter {
	t.Helper()
	n, err := value.NewCounter(c, "/app/n", o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// final returns the number when there are no more changes.
func final(t *testing.T, ctx context.Context, look *client.Client) int64 {
	t.Helper()
	if err := look.Sync(ctx, "/"); err != nil {
		t.Fatal(err)
	}
	now, err := counterOpen(t, look, value.CounterOptions{}).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return now.Value
}

// result is what the caller of a count knows.
func result(n int64, err error) any {
	switch {
	case err == nil:
		return n
	case client.IsAmbiguous(err):
		return unknown{}
	}
	return failed{}
}

// With each fault, the number contains each acknowledged count once.
func TestCounterEveryFaultExact(t *testing.T) {
	counterEveryFault(t, value.CounterOptions{Exact: true}, false)
}

func TestCounterEveryFaultExactRenewed(t *testing.T) {
	counterEveryFault(t, value.CounterOptions{Exact: true}, true)
}

func TestCounterEveryFaultPlain(t *testing.T) { counterEveryFault(t, value.CounterOptions{}, false) }

// The same with a lock, which is acquired after each conflict.
func TestCounterEveryFaultLocked(t *testing.T) {
	counterEveryFault(t, value.CounterOptions{Exact: true, Lock: "/app/lock", Tries: 1}, false)
}

func counterEveryFault(t *testing.T, o value.CounterOptions, renew bool) {
	trial.Every(t, renew, func(w *trial.World) {
		n, other, h := counterOpen(w.T, w.C, o), counterOpen(w.T, w.Look, value.CounterOptions{}), new(history)
		for i := range 3 {
			h.note(0, counterCount{delta: 1}, func() any {
				rivals := 1 - i%2
				did, err := n.ChangeBy(w.Ctx, func(n int64) (int64, error) {
					for ; rivals > 0; rivals-- { // another client is faster
						h.note(1, counterCount{delta: 1}, func() any {
							did, err := other.Increment(w.Ctx)
							return result(did.After, err)
						})
					}
					return n + 1, nil
				})
				if err != nil && (!w.Expires && o.Exact || !trial.Passing(err) && !client.IsAmbiguous(err)) {
					w.Errorf("count %d = %+v, %v", i, did, err)
				}
				return result(did.After, err)
			})
		}
		if err := n.Close(w.Ctx); err != nil {
			w.Errorf("close = %v", err)
		}
		h.check(w.T, 0)
		surely, maybe := h.sums()
		if got := final(w.T, w.Ctx, w.Look); got < surely || got > surely+maybe || maybe > 1 {
			w.Errorf("the number is %d, with %d surely counted and %d in doubt", got, surely, maybe)
		}
		if len(w.Children("/app/n")) > 0 {
			w.AwaitChildren("/app/n", 0)
		}
		if o.Lock != "" {
			w.AwaitChildren(o.Lock, 0)
		}
	})
}

func TestCounterStormExact(t *testing.T) { counterStorm(t, value.CounterOptions{Exact: true}) }

func TestCounterStormPlain(t *testing.T) { counterStorm(t, value.CounterOptions{}) }

func TestCounterStormLocked(t *testing.T) {
	counterStorm(t, value.CounterOptions{Exact: true, Lock: "/app/lock", Tries: 1})
}

// One number explains all counts and reads of clients in a storm.
func counterStorm(t *testing.T, o value.CounterOptions) {
	trial.Storms(t, trial.Weather{Seeds: 2, Faults: 20}, func(s *trial.Storm) {
		h := new(history)
		var work sync.WaitGroup
		for i := range s.Clients() {
			work.Go(func() {
				for !s.Over() {
					c := s.Client(i)
					n := counterOpen(s.T, c, o)
					for !s.Over() && !c.State().Final() {
						h.note(i, counterCount{delta: int64(i + 1)}, func() any {
							did, err := n.Add(s.Ctx, int64(i+1))
							if err != nil && !trial.Passing(err) && !client.IsAmbiguous(err) {
								s.Errorf("add = %v", err)
							}
							return result(did.After, err)
						})
						h.note(i, counterCount{read: true}, func() any {
							if c.Sync(s.Ctx, "/") != nil {
								return failed{}
							}
							now, err := n.Get(s.Ctx)
							if err != nil {
								return failed{} // a read has no effect
							}
							return now.Value
						})
					}
					n.Close(s.Ctx)
				}
			})
		}
		work.Wait()
		h.note(9, counterCount{read: true}, func() any { return final(s.T, s.Ctx, s.Look) })
		h.check(s.T, 0)
		surely, maybe := h.sums()
		got := final(s.T, s.Ctx, s.Look)
		if got < surely || got > surely+maybe {
			s.Errorf("the number is %d, with %d surely counted and %d in doubt", got, surely, maybe)
		}
		s.Logf("%d operations, %d counted, %d in doubt", len(h.ops), surely, maybe)
	})
}

// Each of many clients gets its own numbers, and as many as it requested.
func TestCounterCrowd(t *testing.T) {
	for _, o := range []value.CounterOptions{{}, {Exact: true}, {Lock: "/app/lock", Tries: 2}} {
		t.Run(fmt.Sprintf("exact=%t,lock=%q", o.Exact, o.Lock), func(t *testing.T) {
			t.Parallel()
			const clients, each = 6, 20
			w := trial.New(t)
			h := new(history)
			var work sync.WaitGroup
			for i := range clients {
				c := w.Other()
				work.Go(func() {
					n := counterOpen(t, c, o)
					for range each {
						h.note(i, counterCount{delta: 1}, func() any {
							did, err := n.Increment(w.Ctx)
							if err != nil || did.After != did.Before+1 || did.Tries < 1 {
								t.Errorf("increment = %+v, %v", did, err)
							}
							return result(did.After, err)
						})
					}
					if err := n.Close(w.Ctx); err != nil {
						t.Error(err)
					}
				})
			}
			work.Wait()
			h.check(t, 0)
			if got := final(t, w.Ctx, w.Look); got != clients*each {
				t.Errorf("the number is %d, want %d", got, clients*each)
			}
			if got := w.Children("/app/n"); len(got) > 0 {
				t.Errorf("%q is left", got)
			}
		})
	}
}
