package barrier_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/recipes/barrier"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// stay is from when one begins to enter until one has left: as long, at the most, as
// one is there.
type stay struct {
	client      int
	from, until int // positions in the history; until is -1 if there is no end
	in          int // when Enter returned; -1 if it failed
}

// history is what happened, in order.
type history struct {
	mu    sync.Mutex
	clock int
	stays []*stay
}

func (h *history) begin(client int) *stay {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	for _, before := range h.stays { // the session that it failed with has ended
		if before.client == client && before.until < 0 {
			before.until = h.clock
		}
	}
	s := &stay{client: client, from: h.clock, until: -1, in: -1}
	h.stays = append(h.stays, s)
	return s
}

func (h *history) mark(at *int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	*at = h.clock
}

// enough reports whether there was a time in s's Enter at which n clients were there.
func (h *history) enough(s *stay, n int) bool {
	for t := s.from; t <= s.in; t++ {
		there := map[int]bool{}
		for _, o := range h.stays {
			if o.from <= t && (o.until < 0 || t <= o.until) {
				there[o.client] = true
			}
		}
		if len(there) >= n {
			return true
		}
	}
	return false
}

// All clients take part in a barrier that needs all of them, again and again, while
// their connections break, their sessions end and leaders are killed. Nobody gets in
// before all are there, and in the end nobody is stuck.
func TestDoubleStorm(t *testing.T) {
	trial.Storms(t, trial.Weather{}, func(s *trial.Storm) {
		h := &history{}
		storm, end := s.UntilCalm() // for those that wait for others that have ended
		defer end()
		s.Each(func(i int, _ *rand.Rand) { takePart(storm, s, h, i) })
		through := 0
		for _, stay := range h.stays {
			if stay.in >= 0 {
				through++
				if !h.enough(stay, s.Clients()) {
					s.Errorf("client %d was let in at %d, but not all were there since %d", stay.client, stay.in, stay.from)
				}
			}
		}
		s.Logf("%d of %d got in", through, len(h.stays))

		awaitNobody(s.Ctx, s, s.Look)
		var work sync.WaitGroup
		for i := range s.Clients() { // what the storm has left behind is in nobody's way
			work.Go(func() {
				for {
					in, err := double(s, s.Client(i), s.Clients()).Enter(s.Ctx)
					if err == nil {
						err = in.Release(s.Ctx)
					}
					if err == nil || !trial.Passing(err) {
						if err != nil {
							s.Errorf("client %d after the storm: %v", i, err)
						}
						return
					}
				}
			})
		}
		work.Wait()
	})
}

// takePart is one round of a client.
func takePart(ctx context.Context, s *trial.Storm, h *history, i int) {
	b, err := barrier.NewDouble(s.Client(i), "/b", s.Clients(), barrier.Options{})
	if err != nil {
		s.Error(err)
		return
	}
	stay := h.begin(i)
	in, err := b.Enter(ctx)
	if err != nil {
		if ctx.Err() == nil && !trial.Passing(err) {
			s.Errorf("client %d: %v", i, err)
		}
		return
	}
	h.mark(&stay.in)
	err = in.Release(ctx)
	if err == nil {
		h.mark(&stay.until)
	} else if ctx.Err() == nil && !trial.Passing(err) {
		s.Errorf("client %d: %v", i, err)
	}
}
