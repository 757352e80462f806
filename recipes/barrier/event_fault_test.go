package barrier_test

import (
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// lost reports whether an error is that C's session has ended, and fails the test for
// any other.
func lost(w *trial.World, what string, err error) bool {
	w.Helper()
	if err != nil && !(w.Expires && (errors.Is(err, client.ErrSessionExpired) || errors.Is(err, recipes.ErrLost))) {
		w.Errorf("%s: %s = %v", w.Fault, what, err)
	}
	return err != nil
}

// C sets an auto-reset event for which two wait: one of them is released, not none and
// not both. If the outcome is unknown the error says so.
func TestEventEveryFaultOfSet(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		all := queue(w, 2)
		err := auto(w, w.C).Set(w.Ctx)
		if lost(w, "set", err) && !client.IsAmbiguous(err) {
			mustBeSet(w, auto(w, w.Look), false)
			w.Must(auto(w, w.Look).Set(w.Ctx))
		}
		if client.IsAmbiguous(err) {
			if len(w.Children("/dir/e")) == 2 {
				w.Must(auto(w, w.Look).Set(w.Ctx))
			}
		}
		w.Must(<-all[0])
		w.AwaitChildren("/dir/e", 1)
		if !client.IsAmbiguous(err) {
			mustBeSet(w, auto(w, w.Look), false)
		}
		w.Must(auto(w, w.Look).Set(w.Ctx))
		w.Must(<-all[1])
	})
}

// C takes a signal: it has it, or the next one has.
func TestEventEveryFaultOfWait(t *testing.T) {
	for _, renew := range []bool{false, true} {
		t.Run(map[bool]string{false: "keep", true: "renew"}[renew], func(t *testing.T) {
			trial.Every(t, renew, func(w *trial.World) {
				e := auto(w, w.Look)
				w.Must(e.Set(w.Ctx))
				err := auto(w, w.C).Wait(w.Ctx)
				set, lookErr := e.IsSet(w.Ctx)
				w.Must(lookErr)
				switch {
				case !lost(w, "wait", err) && set:
					w.Errorf("%s: the signal was taken, and is there still", w.Fault)
				case err != nil && !client.IsAmbiguous(err) && !set:
					w.Errorf("%s: wait has failed (%v), but the signal is gone", w.Fault, err)
				}
				w.AwaitChildren("/dir/e", 0)
				w.Must(e.Set(w.Ctx))
				w.Must(e.Wait(w.Ctx))
				mustBeSet(w, e, false)
			})
		})
	}
}

// C waits for a manual-reset event, which is pulsed, and does all else that there is.
func TestEventEveryFaultOfManual(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		e, other := manual(w, w.C), manual(w, w.Look)
		if lost(w, "set", e.Set(w.Ctx)) {
			w.Must(other.Set(w.Ctx))
		}
		mustBeSet(w, other, true)
		lost(w, "wait", e.Wait(w.Ctx))
		if lost(w, "reset", e.Reset(w.Ctx)) {
			w.Must(other.Reset(w.Ctx))
		}
		mustBeSet(w, other, false)
		done := eventWait(w.Ctx, e)
		w.Must(other.Set(w.Ctx))
		lost(w, "wait", <-done)
	})
}
