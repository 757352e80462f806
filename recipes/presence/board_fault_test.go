package presence_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/presence"
)

// Whatever breaks for a worker: a monitor sees its statuses in the order in which they
// were set, some left out, and the last one in the end.
func TestBoardEveryFaultOfWorker(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		var watching sync.WaitGroup
		watching.Go(func() { inOrder(w, w.Ctx, newBoard(w, w.Look), 1, 5) })
		r, err := newBoard(w, w.C).Register(w.Ctx, "0", "1")
		w.Must(err)
		w.Must(r.Set(w.Ctx, "2"))
		w.Must(r.Post("3"))
		w.Must(r.Post("4"))
		w.Must(r.Set(w.Ctx, "5"))
		watching.Wait()
		w.Must(r.Release(w.Ctx))
		if got := w.Children("/workers"); len(got) != 0 {
			w.Errorf("%s: after Close there is %q", w.Fault, got)
		}
	})
}

// Whatever breaks for a monitor: the same.
func TestBoardEveryFaultOfMonitor(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		r := register(w, w.Look, "0", "1")
		next := 2
		last := 0
		for v, err := range newBoard(w, w.C).Follow(w.Ctx) {
			w.Must(err)
			if len(v.Workers) == 0 || v.Stale {
				continue
			}
			n, err := strconv.Atoi(v.Workers[0].Status)
			w.Must(err)
			if n < last {
				w.Errorf("%s: %d comes after %d", w.Fault, n, last)
			}
			if last = n; n == 5 {
				break
			}
			if next <= n+1 {
				w.Must(r.Set(w.Ctx, strconv.Itoa(next)))
				next++
			}
		}
	})
}

// inOrder follows until each of n workers has the last status, and checks that none
// goes back.
func inOrder(t failing, ctx context.Context, b *presence.Board, n, last int) {
	latest := map[string]int{}
	for v, err := range b.Follow(ctx) {
		if err != nil {
			t.Errorf("follow: %v", err)
			return
		}
		finished := 0
		for _, w := range v.Workers {
			s, err := strconv.Atoi(w.Status)
			if err != nil || s < latest[w.ID] {
				t.Errorf("%s has %q after %d", w.ID, w.Status, latest[w.ID])
			}
			latest[w.ID] = s
			if s == last {
				finished++
			}
		}
		if finished == n {
			return
		}
	}
}

// counter is a worker of several goroutines, which decide on the next status and post
// it under a lock.
type counter struct {
	r  *presence.Reporter
	mu sync.Mutex
	n  int
}

func (c *counter) step(ctx context.Context, wait bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if wait {
		return c.r.Set(ctx, strconv.Itoa(c.n))
	}
	return c.r.Post(strconv.Itoa(c.n))
}

// Workers of several goroutines each, in storms: monitors see the
// statuses of each worker in order, and the last one in the end.
func TestBoardStorm(t *testing.T) {
	const end = 1 << 40
	trial.Storms(t, trial.Weather{Renew: true}, func(s *trial.Storm) {
		var work, monitors sync.WaitGroup
		var counters []*counter
		for i := range s.Clients() {
			b, err := presence.NewBoard(s.Client(i), "/workers", presence.Options{})
			if err != nil {
				s.Fatal(err)
			}
			monitors.Go(func() { inOrder(s, s.Ctx, b, s.Clients(), end) })
			r, err := b.Register(s.Ctx, strconv.Itoa(i), "0")
			if err != nil {
				s.Fatalf("register: %v", err)
			}
			c := &counter{r: r}
			counters = append(counters, c)
			for j := range 3 {
				work.Go(func() {
					for !s.Over() {
						if err := c.step(s.Ctx, j == 0); err != nil {
							s.Errorf("post: %v", err)
							return
						}
					}
				})
			}
		}
		work.Wait()
		for _, c := range counters {
			if err := c.r.Set(s.Ctx, strconv.Itoa(end)); err != nil {
				s.Errorf("set: %v", err)
			}
		}
		monitors.Wait()
		for _, c := range counters {
			if err := c.r.Release(s.Ctx); err != nil {
				s.Errorf("close: %v", err)
			}
		}
	})
}
