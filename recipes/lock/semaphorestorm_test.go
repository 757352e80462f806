package lock_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

const leases = 3

// step is what a client of the semaphore has done: got leases, made a write that they
// guard, or returned or lost them.
type semaphoreStep struct {
	what string // "acquire", "write", "return"
	who  int
	n    int
}

// bound is what the semaphore promises. Its state is the number of leases of each client.
var bound = porcupine.Model{
	Init: func() any { return [5]int{} },
	Step: func(state, input, _ any) (bool, any) {
		has, s := state.([5]int), input.(semaphoreStep)
		sum := 0
		for _, n := range has {
			sum += n
		}
		switch s.what {
		case "acquire":
			has[s.who] += s.n
			return sum+s.n <= leases, has
		case "write":
			return has[s.who] >= s.n, has
		}
		has[s.who] -= s.n
		return true, has
	},
}

// history is what clients have done, and when.
type semaphoreHistory struct {
	*trial.Storm
	began     time.Time
	had, lost atomic.Int64

	mu  sync.Mutex
	ops []porcupine.Operation
}

func (h *semaphoreHistory) now() int64 { return time.Since(h.began).Nanoseconds() }

func (h *semaphoreHistory) add(s semaphoreStep, call, ret int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: s.who, Input: s, Call: call, Return: ret})
}

// Clients acquire and return leases, waiting or not, while connections break, sessions
// end and leaders are killed.
func TestSemaphoreStorm(t *testing.T) {
	for _, renew := range []bool{false, true} {
		name := "sessions that end"
		if renew {
			name = "sessions that are renewed"
		}
		t.Run(name, func(t *testing.T) {
			trial.Storms(t, trial.Weather{Seeds: 2, Clients: 5, Faults: 40, Renew: renew}, func(s *trial.Storm) {
				h := &semaphoreHistory{Storm: s, began: time.Now()}
				var work sync.WaitGroup
				for i := range s.Clients() {
					rng := rand.New(rand.NewPCG(s.Seed, uint64(i)))
					work.Go(func() {
						for !s.Over() {
							h.round(i, rng)
						}
					})
				}
				work.Wait()
				s.Logf("%d times leases were had, of which %d were lost", h.had.Load(), h.lost.Load())
				if h.had.Load() == 0 {
					s.Error("nobody ever had a lease")
				}
				switch porcupine.CheckOperationsTimeout(bound, h.ops, time.Minute) {
				case porcupine.Illegal:
					s.Errorf("more leases were held than there are: %v", h.ops)
				case porcupine.Unknown:
					s.Logf("undecided: Porcupine does not get through %d steps", len(h.ops))
				}
			})
		})
	}
}

// round acquires leases once, writes under them, and returns them.
func (h *semaphoreHistory) round(i int, rng *rand.Rand) {
	c := h.Client(i)
	s, err := lock.NewSemaphore(c, "/sem", leases, hold.Options{})
	if err != nil {
		h.Error(err)
		return
	}
	done := semaphoreStep{"acquire", i, 1 + rng.IntN(2)}
	call := h.now()
	ok, lease := true, (*hold.Held)(nil)
	if rng.IntN(3) == 0 {
		lease, ok, err = s.TryAcquire(h.Ctx, done.n)
	} else {
		lease, err = s.Acquire(h.Ctx, done.n)
	}
	if err != nil && !trial.Passing(err) {
		h.Errorf("acquire = %v", err)
	}
	if err != nil || !ok {
		return
	}
	h.add(done, call, h.now())
	h.had.Add(1)
	h.use(c, lease, done, call)
}

// use writes under leases that were asked for at some time, and returns them.
func (h *semaphoreHistory) use(c *client.Client, lease *hold.Held, done semaphoreStep, asked int64) {
	done.what = "write"
	call := h.now()
	err := trial.Write(h.Ctx, c, lease)
	if err == nil {
		h.add(done, call, h.now())
	} else if !trial.Passing(err) && !errors.Is(err, client.ErrNoNode) {
		h.Errorf("guarded write = %v", err)
	}
	// Leases that were lost may have been lost at any time since they were acquired, even
	// before that was known here.
	done.what = "return"
	call = h.now()
	if err := lease.Release(h.Ctx); err != nil {
		call = asked
		h.lost.Add(1)
		if !trial.Passing(err) {
			h.Errorf("return = %v", err)
		}
	}
	h.add(done, call, h.now())
}
