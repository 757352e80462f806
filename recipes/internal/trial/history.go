package trial

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// ErrCalm ends the contexts of [Storm.UntilCalm].
var ErrCalm = errors.New("the storm is over")

// UntilCalm returns a context that ends with the storm. The caller must call end.
func (s *Storm) UntilCalm() (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(s.Ctx)
	go func() {
		select {
		case <-s.Calm:
			cancel(ErrCalm)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Each has each client do something again and again until the storm is over, with random numbers
// of its own.
func (s *Storm) Each(do func(i int, rng *rand.Rand)) {
	var work sync.WaitGroup
	for i := range s.Clients() {
		rng := rand.New(rand.NewPCG(s.Seed, uint64(i)))
		work.Go(func() {
			for !s.Over() {
				do(i, rng)
			}
		})
	}
	work.Wait()
}

// Explain reports whether there was no error. One that neither the storm explains nor is expected fails
// the test.
func (s *Storm) Explain(what string, err error, expected ...error) bool {
	s.Helper()
	if err == nil {
		return true
	}
	for _, e := range expected {
		if errors.Is(err, e) {
			return false
		}
	}
	if !Passing(err) {
		s.Errorf("%s = %v", what, err)
	}
	return false
}

// WithSessions runs storms in which sessions end, and storms in which they are renewed, too.
func WithSessions(t *testing.T, o Weather, fn func(s *Storm)) {
	for _, renew := range []bool{false, true} {
		name := "sessions that end"
		if renew {
			name = "sessions that are renewed"
		}
		t.Run(name, func(t *testing.T) {
			o.Renew = renew
			Storms(t, o, fn)
		})
	}
}

// History has the steps that clients have made in a storm. Next is the model that must explain them
// in some order: it returns whether a step is possible in a state, and the state after it. It begins
// with State's zero value.
type History[State comparable, Step any] struct {
	*Storm
	Next func(State, Step) (bool, State)

	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// NewHistory returns a history without steps.
func NewHistory[State comparable, Step any](s *Storm, next func(State, Step) (bool, State)) *History[State, Step] {
	return &History[State, Step]{Storm: s, Next: next, began: time.Now()}
}

// Now returns the time in the history.
func (h *History[State, Step]) Now() int64 { return time.Since(h.began).Nanoseconds() }

// Add notes that a client has made a step between a time and now.
func (h *History[State, Step]) Add(client int, s Step, from int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: s, Call: from, Return: h.Now()})
}

// Check fails the test if no order of the steps agrees with the model. violated says what that means.
func (h *History[State, Step]) Check(violated string) {
	h.Helper()
	model := porcupine.Model{
		Init: func() any { return *new(State) },
		Step: func(state, step, _ any) (bool, any) { return h.Next(state.(State), step.(Step)) },
	}
	switch porcupine.CheckOperationsTimeout(model, h.ops, time.Minute) {
	case porcupine.Illegal:
		h.Errorf("%s: %v", violated, h.ops)
	case porcupine.Unknown:
		h.Logf("undecided: Porcupine does not get through %d steps", len(h.ops))
	}
}
