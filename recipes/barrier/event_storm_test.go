package barrier_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// One signal goes from one client to the next, which has it until it sets the event
// again: two never have it, and it is never lost, except by calls that say that they
// don't know their outcome. They end the run.
func TestEventStorm(t *testing.T) {
	trial.Storms(t, trial.Weather{}, func(s *trial.Storm) {
		look := auto(s, s.Look)
		if err := look.Set(s.Ctx); err != nil {
			s.Fatal(err)
		}
		ctx, cancel := context.WithCancel(s.Ctx)
		defer cancel()
		var holders, handed atomic.Int64
		var doubtful atomic.Bool
		doubt := func(err error) bool {
			if client.IsAmbiguous(err) {
				doubtful.Store(true)
				cancel()
			} else if err != nil && ctx.Err() == nil && !trial.Passing(err) {
				s.Error(err)
			}
			return client.IsAmbiguous(err)
		}
		var work sync.WaitGroup
		for i := range s.Clients() {
			work.Go(func() {
				for ctx.Err() == nil && !s.Over() {
					err := auto(s, s.Client(i)).Wait(ctx)
					if err != nil {
						doubt(err)
						continue
					}
					if n := holders.Add(1); n != 1 && !doubtful.Load() {
						s.Errorf("%d have the signal", n)
					}
					handed.Add(1)
					holders.Add(-1)
					for {
						err := auto(s, s.Client(i)).Set(s.Ctx)
						if err == nil || doubt(err) || s.Ctx.Err() != nil {
							break
						}
					}
				}
			})
		}
		select {
		case <-s.Calm:
		case <-ctx.Done():
		}
		cancel() // those that wait for others that have ended
		work.Wait()
		s.Logf("handed on %d times, doubtful in the end: %v", handed.Load(), doubtful.Load())
		if doubtful.Load() {
			return
		}
		if err := look.Wait(s.Ctx); err != nil {
			s.Errorf("the signal is lost: %v", err)
		}
		if set, err := look.IsSet(s.Ctx); set || err != nil {
			s.Errorf("the signal has doubled: %v, %v", set, err)
		}
	})
}
