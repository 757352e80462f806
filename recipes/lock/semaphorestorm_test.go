package lock_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

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
func bound(has [5]int, s semaphoreStep) (bool, [5]int) {
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
}

// semaphoreHistory is what clients have done.
type semaphoreHistory struct {
	*trial.History[[5]int, semaphoreStep]
	had, lost atomic.Int64
}

// Clients acquire and return leases, waiting or not, while connections break, sessions
// end and leaders are killed.
func TestSemaphoreStorm(t *testing.T) {
	trial.WithSessions(t, trial.Weather{Seeds: 2, Clients: 5, Faults: 40}, func(s *trial.Storm) {
		h := &semaphoreHistory{History: trial.NewHistory(s, bound)}
		s.Each(h.round)
		s.Logf("%d times leases were had, of which %d were lost", h.had.Load(), h.lost.Load())
		if h.had.Load() == 0 {
			s.Error("nobody ever had a lease")
		}
		h.Check("more leases were held than there are")
	})
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
	call := h.Now()
	ok, lease := true, (*hold.Held)(nil)
	if rng.IntN(3) == 0 {
		lease, ok, err = s.TryAcquire(h.Ctx, done.n)
	} else {
		lease, err = s.Acquire(h.Ctx, done.n)
	}
	if !h.Explain("acquire", err) || !ok {
		return
	}
	h.Add(done.who, done, call)
	h.had.Add(1)
	h.use(c, lease, done, call)
}

// use writes under leases that were asked for at some time, and returns them.
func (h *semaphoreHistory) use(c *client.Client, lease *hold.Held, done semaphoreStep, asked int64) {
	done.what = "write"
	call := h.Now()
	if h.Explain("guarded write", trial.Write(h.Ctx, c, lease), client.ErrNoNode) {
		h.Add(done.who, done, call)
	}
	// Leases that were lost may have been lost at any time since they were acquired, even
	// before that was known here.
	done.what = "return"
	call = h.Now()
	if !h.Explain("return", lease.Release(h.Ctx)) {
		call = asked
		h.lost.Add(1)
	}
	h.Add(done.who, done, call)
}
