package lock_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

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

// locked is the token of the holder, and 0 if there is none.
type locked client.Zxid

// mutualExclusion is what a lock promises: one holds it at a time, in the order of the
// tokens, and only the holder can make a guarded write.
var mutualExclusion = porcupine.Model{
	Init: func() any { return locked(0) },
	Step: func(state, input, _ any) (bool, any) {
		holder, s := state.(locked), input.(step)
		switch s.what {
		case "lock":
			return holder == 0, locked(s.token)
		case "write":
			return holder == locked(s.token), holder
		}
		return holder == locked(s.token), locked(0)
	},
}

// history is what clients have done, and when.
type history struct {
	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func (h *history) now() int64 { return time.Since(h.began).Nanoseconds() }

func (h *history) add(client int, s step, call, ret int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: s, Call: call, Return: ret})
}

// Clients lock, write and release while connections break, sessions end and leaders are
// killed.
func TestStorm(t *testing.T) {
	for _, renew := range []bool{false, true} {
		name := "sessions that end"
		if renew {
			name = "sessions that are renewed"
		}
		t.Run(name, func(t *testing.T) {
			trial.Storms(t, trial.Weather{Seeds: 3, Faults: 40, Renew: renew}, func(s *trial.Storm) {
				h := &history{began: time.Now()}
				var rounds, lost atomic.Int64
				var work sync.WaitGroup
				for i := range s.Clients() {
					work.Go(func() {
						for !s.Over() {
							round(s, h, i, &rounds, &lost)
						}
					})
				}
				work.Wait()
				s.Logf("%d rounds, in %d of which the lock was lost", rounds.Load(), lost.Load())
				if rounds.Load() == 0 {
					s.Error("nobody ever had the lock")
				}
				switch porcupine.CheckOperationsTimeout(mutualExclusion, h.ops, time.Minute) {
				case porcupine.Illegal:
					s.Errorf("the lock was held by two: %v", h.ops)
				case porcupine.Unknown:
					s.Logf("undecided: Porcupine does not get through %d steps", len(h.ops))
				}
			})
		})
	}
}

// round acquires the lock once, writes under it, and releases.
func round(s *trial.Storm, h *history, i int, rounds, lost *atomic.Int64) {
	c := s.Client(i)
	asked := h.now()
	held, err := mutex(s, c, lock.Options{Layout: lock.Layout(i % 3)}).Lock(s.Ctx)
	if err != nil {
		if !trial.Passing(err) && !errors.Is(err, recipes.ErrLost) {
			s.Errorf("lock = %v", err)
		}
		return
	}
	rounds.Add(1)
	h.add(i, step{"lock", held.Token()}, asked, h.now())
	for range 3 {
		call := h.now()
		err := trial.Write(s.Ctx, c, held)
		if err == nil {
			h.add(i, step{"write", held.Token()}, call, h.now())
		} else if !trial.Passing(err) && !errors.Is(err, client.ErrNoNode) {
			s.Errorf("guarded write = %v", err)
		}
	}
	// A lock that was lost may have been lost at any time since it was acquired, even before
	// that was known here.
	call := h.now()
	if err := held.Release(s.Ctx); err != nil {
		call = asked
		lost.Add(1)
		if !trial.Passing(err) && !errors.Is(err, recipes.ErrLost) {
			s.Errorf("release = %v", err)
		}
	}
	h.add(i, step{"unlock", held.Token()}, call, h.now())
}
