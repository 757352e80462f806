package barrier_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// C is the second of two: it makes them meet. Both know of it, or nobody does; that the
// other knows and C does not is only if C's session has ended, and then C says so.
func TestRendezvousEveryFaultAsSecond(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		other := meet(w.Ctx, place(w, w.Other(), 2), "other")
		w.AwaitChildren("/pairs", 1)
		check(w, meet(w.Ctx, place(w, w.C, 2), "own"), other)
	})
}

// C is the first of two, and waits.
func TestRendezvousEveryFaultAsFirst(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		rec := w.Record()
		ctx, cancel := context.WithCancel(w.Ctx)
		own := make(chan met, 1)
		go func() {
			defer cancel()
			own <- <-meet(w.Ctx, place(w, w.C, 2), "own")
		}()
		_ = rec.Await(ctx, "list", func(r zktest.Traced) bool { return r.Op == jute.OpGetChildren2 })
		check(w, own, meet(w.Ctx, place(w, w.Other(), 2), "other"))
	})
}

func check(w *trial.World, own, other <-chan met) {
	w.Helper()
	m := <-own
	if m.err != nil {
		if !w.Expires || !errors.Is(m.err, recipes.ErrLost) {
			w.Errorf("%s: meet = %v", w.Fault, m.err)
		}
		ctx, cancel := context.WithCancel(w.Ctx)
		substitute := meet(ctx, place(w, w.Look, 2), "substitute")
		o := <-other
		w.Must(o.err)
		with := string(o.Values[1-o.Own])
		if with == "own" && !client.IsAmbiguous(m.err) {
			w.Errorf("%s: the other has met C, which says that it has met nobody: %v", w.Fault, m.err)
		}
		if with == "own" {
			cancel() // nobody is left for it
		}
		if s := <-substitute; with == "substitute" {
			w.Must(s.err)
		}
		cancel()
	} else if o := <-other; o.err != nil || o.ID != m.ID || fmt.Sprintf("%q", o.Values) != fmt.Sprintf("%q", m.Values) {
		w.Errorf("%s: C has met %q in %v, and the other %q in %v, %v", w.Fault, m.Values, m.ID, o.Values, o.ID, o.err)
	}
	w.AwaitChildren("/pairs", 0)
}

// In a storm all parties of a meeting are told the same, its values are of different parties,
// and no value is in two meetings. A party is not told of its meeting only if its call has
// failed with an ambiguous error.
func TestRendezvousStorm(t *testing.T) {
	trial.Storms(t, trial.Weather{}, func(s *trial.Storm) {
		var mu sync.Mutex
		meetings := map[client.Zxid]string{}
		knows, unsure := map[string]bool{}, map[string]bool{}
		var all []string
		ctx, cancel := context.WithCancel(s.Ctx)
		defer cancel()
		var work sync.WaitGroup
		for i := range s.Clients() {
			work.Go(func() {
				for round := 0; !s.Over(); round++ {
					value := fmt.Sprintf("%d/%d", i, round)
					m := <-meet(ctx, place(s, s.Client(i), 2), value)
					mu.Lock()
					switch {
					case m.err == nil:
						values := fmt.Sprintf("%q", m.Values)
						if meetings[m.ID] == "" {
							all = append(all, string(m.Values[0]), string(m.Values[1]))
							meetings[m.ID] = values
						}
						if meetings[m.ID] != values || string(m.Values[m.Own]) != value {
							s.Errorf("%s has met %s in %v, others %s", value, values, m.ID, meetings[m.ID])
						}
						knows[value] = true
					case client.IsAmbiguous(m.err):
						unsure[value] = true
					case ctx.Err() == nil && !trial.Passing(m.err):
						s.Error(m.err)
					}
					mu.Unlock()
				}
			})
		}
		select {
		case <-s.Calm:
		case <-ctx.Done():
		}
		cancel() // those that wait for others that have ended
		work.Wait()
		slices.Sort(all)
		if n := len(all); len(slices.Compact(slices.Clone(all))) != n {
			s.Errorf("a value was exchanged twice: %q", all)
		}
		for _, value := range all {
			if !knows[value] && !unsure[value] {
				s.Errorf("%s was met, and does not know that it may have been", value)
			}
		}
		s.Logf("%d meetings, %d parties unsure", len(meetings), len(unsure))
	})
}
