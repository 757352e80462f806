package barrier_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// One sets and removes the barrier, and the others wait, in a storm. In place it is in
// odd phases: from when Set has returned until Remove is called. Nobody's Wait begins
// and ends in one and the same of them.
func TestStorm(t *testing.T) {
	trial.Storms(t, trial.Weather{}, func(s *trial.Storm) {
		var phase, waits atomic.Int64
		var work sync.WaitGroup
		work.Go(func() {
			for !s.Over() {
				for keepOn(s, at(s, s.Client(0), "/b").Set(s.Ctx)) {
				}
				phase.Add(1)
				for range 3 {
					_, _ = at(s, s.Client(0), "/b").Present(s.Ctx)
				}
				phase.Add(1)
				for keepOn(s, at(s, s.Client(0), "/b").Remove(s.Ctx)) {
				}
			}
		})
		for i := 1; i < s.Clients(); i++ {
			work.Go(func() {
				for !s.Over() {
					before := phase.Load()
					err := at(s, s.Client(i), "/b").Wait(s.Ctx)
					if after := phase.Load(); err == nil && before%2 == 1 && after == before {
						s.Errorf("client %d passed a barrier that was in place, in phase %d", i, before)
					}
					keepOn(s, err)
					waits.Add(1)
				}
			})
		}
		work.Wait()
		s.Logf("%d waits in %d phases", waits.Load(), phase.Load())
	})
}

// keepOn reports whether something is to be done again, with a new session.
func keepOn(s *trial.Storm, err error) bool {
	s.Helper()
	return !s.Explain("barrier", err) && trial.Passing(err)
}
