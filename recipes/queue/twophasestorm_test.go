package queue_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/queue"
)

// Producers in storms repeat their offers blindly, in whatever session there is, and
// some that have succeeded, too: each item is taken once.
func TestStormOfTwoPhase(t *testing.T) {
	for _, renew := range []bool{false, true} {
		t.Run(fmt.Sprintf("renew=%t", renew), func(t *testing.T) {
			trial.Storms(t, trial.Weather{Seeds: 1, Faults: 40, Renew: renew}, func(s *trial.Storm) { stormOfTwoPhase(s) })
		})
	}
}

func stormOfTwoPhase(s *trial.Storm) {
	h := &history{}
	create := func(c *client.Client) (*queue.TwoPhase, error) { return queue.NewTwoPhase(c, "/q", queue.Options{}) }
	drafts := make([]*queue.Draft, s.Clients()) // under way
	work(s, create, func(i, round int, q *queue.TwoPhase) []error {
		if drafts[i] == nil {
			drafts[i] = queue.NewDraft(fmt.Appendf(nil, "%d-%d", i, round))
			h.add(i, false, string(drafts[i].Data), 0, true)
		}
		d := drafts[i]
		err1 := q.Offer(s.Ctx, d)
		if err1 == nil && round%2 == 0 {
			drafts[i] = nil // else it is repeated, once the item may have been taken
		}
		data, ok, err2 := q.Poll(s.Ctx)
		if ok {
			h.add(i, true, string(data), 0, true)
		}
		if u, ok := errors.AsType[*queue.UnknownError](err2); ok {
			h.add(i, true, string(u.Data[0]), 0, false)
		}
		return []error{err1, err2}
	})
	last, err := create(s.Look)
	if err != nil {
		s.Fatal(err)
	}
	defer last.Close(s.Ctx)
	for _, d := range drafts {
		if d == nil {
			continue
		}
		if err := last.Offer(s.Ctx, d); err != nil {
			s.Fatal(err)
		}
	}
	if err := s.Look.Sync(s.Ctx, "/q"); err != nil {
		s.Fatal(err)
	}
	for ok := true; ok; {
		var data []byte
		if data, ok, err = last.Poll(s.Ctx); err != nil {
			s.Fatal(err)
		}
		if ok {
			h.add(s.Clients(), true, string(data), 0, true)
		}
	}
	s.Logf("%d operations", len(h.settled(s.T)))
}
