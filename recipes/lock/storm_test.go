package lock_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

// step is what a client of the lock has done: got it, made a guarded write under it, or
// given it up or lost it.
type step struct {
	what  string // "lock", "write", "unlock"
	token client.Zxid
}

// mutualExclusion is what a lock promises: one holds it at a time, in the order of the
// tokens, and only the holder can make a guarded write. The state is the token of the holder,
// and 0 if there is none.
func mutualExclusion(holder client.Zxid, s step) (bool, client.Zxid) {
	switch s.what {
	case "lock":
		return holder == 0, s.token
	case "write":
		return holder == s.token, holder
	}
	return holder == s.token, 0
}

// Clients lock, write and release while connections break, sessions end and leaders are
// killed.
func TestStorm(t *testing.T) {
	trial.WithSessions(t, trial.Weather{Seeds: 3, Faults: 40}, func(s *trial.Storm) {
		h := trial.NewHistory(s, mutualExclusion)
		var rounds, lost atomic.Int64
		s.Each(func(i int, _ *rand.Rand) { round(h, i, &rounds, &lost) })
		s.Logf("%d rounds, in %d of which the lock was lost", rounds.Load(), lost.Load())
		if rounds.Load() == 0 {
			s.Error("nobody ever had the lock")
		}
		h.Check("the lock was held by two")
	})
}

// round acquires the lock once, writes under it, and releases.
func round(h *trial.History[client.Zxid, step], i int, rounds, lost *atomic.Int64) {
	c := h.Client(i)
	asked := h.Now()
	held, err := mutex(h, c, lock.Options{Layout: lock.Layout(i % 3)}).Lock(h.Ctx)
	if !h.Explain("lock", err, recipes.ErrLost) {
		return
	}
	rounds.Add(1)
	h.Add(i, step{"lock", held.Token()}, asked)
	for range 3 {
		call := h.Now()
		if h.Explain("guarded write", trial.Write(h.Ctx, c, held), client.ErrNoNode) {
			h.Add(i, step{"write", held.Token()}, call)
		}
	}
	// A lock that was lost may have been lost at any time since it was acquired, even before
	// that was known here.
	call := h.Now()
	if !h.Explain("release", held.Release(h.Ctx), recipes.ErrLost) {
		call = asked
		lost.Add(1)
	}
	h.Add(i, step{"unlock", held.Token()}, call)
}
