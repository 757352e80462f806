package twopc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/twopc"
)

// gone reports whether err means that C's session has ended, and fails the test if it means
// anything else.
func gone(w *trial.World, what string, err error) bool {
	w.Helper()
	if err != nil && !(w.Expires && (errors.Is(err, client.ErrSessionExpired) || errors.Is(err, recipes.ErrLost))) {
		w.Errorf("%s: %s = %v", w.Fault, what, err)
	}
	return err != nil
}

// C is the coordinator. If its session ends, another one continues.
func TestEveryFaultOfCoordinator(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		tx, other := transaction(w, w.C), transaction(w, w.Look)
		plan := twopc.Plan{Sites: []string{"a", "b"}, Data: []byte("x")}
		if gone(w, "begin", tx.Begin(w.Ctx, plan)) {
			if err := other.Begin(w.Ctx, plan); !errors.Is(err, client.ErrNodeExists) { // all of it, or nothing
				w.Must(err)
			}
		}
		deciding := background(w.Ctx, tx.Decide)
		awaiting := background(w.Ctx, other.Await)
		for _, name := range plan.Sites {
			w.Must(join(w, w.Look, name).Vote(w.Ctx, twopc.Commit))
		}
		d := <-deciding
		if gone(w, "decide", d.err) {
			mustDecide(w, background(w.Ctx, other.Decide), twopc.Commit)
		}
		mustDecide(w, awaiting, twopc.Commit)
		if gone(w, "end", tx.End(w.Ctx)) {
			w.Must(other.End(w.Ctx))
		}
		if names := w.Children("/tx"); len(names) != 0 {
			w.Errorf("%s: left on the tree: %q", w.Fault, names)
		}
	})
}

// C is a site. With each fault, all learn the same decision. If C has voted to commit and
// lives, the decision is to commit.
func TestEveryFaultOfSite(t *testing.T) {
	for _, c := range []struct {
		name      string
		ephemeral bool
		vote      twopc.Outcome
		renew     bool
	}{
		{"persistent-commit", false, twopc.Commit, false},
		{"persistent-abort", false, twopc.Abort, true},
		{"ephemeral-commit", true, twopc.Commit, true},
		{"ephemeral-abort", true, twopc.Abort, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			trial.Every(t, c.renew, func(w *trial.World) {
				other := transaction(w, w.Look)
				w.Must(other.Begin(w.Ctx, twopc.Plan{Sites: []string{"a", "b"}, Ephemeral: c.ephemeral}))
				deciding := background(w.Ctx, other.Decide)
				w.Must(join(w, w.Look, "b").Vote(w.Ctx, twopc.Commit))
				seen, err := site(w.Ctx, w.C, c.vote)
				if gone(w, "site", err) {
					seen, err = again(w, c.vote)
					w.Must(err)
				}
				decided := <-deciding
				w.Must(decided.err)
				if seen.Outcome != decided.Outcome {
					w.Errorf("%s: site a goes by %v, the coordinator by %v", w.Fault, seen, decided.Decision)
				}
				failed := c.ephemeral && w.Expires && w.Hit()
				if decided.Outcome != c.vote && !(failed && decided.Outcome == twopc.Abort) {
					w.Errorf("%s: site a votes %s, but it comes to %v", w.Fault, c.vote, decided.Decision)
				}
			})
		})
	}
}

// site joins, votes and awaits the decision.
func site(ctx context.Context, c *client.Client, vote twopc.Outcome) (twopc.Decision, error) {
	tx, err := twopc.New(c, path, twopc.Options{})
	if err != nil {
		return twopc.Decision{}, err
	}
	s, err := tx.Join(ctx, "a")
	if err != nil {
		return twopc.Decision{}, err
	}
	if err := s.Vote(ctx, vote); err != nil {
		return twopc.Decision{}, err
	}
	return tx.Decide(ctx)
}

// again repeats it with another session. An ephemeral site may have failed before it joined.
func again(w *trial.World, vote twopc.Outcome) (twopc.Decision, error) {
	return site(w.Ctx, w.Other(), vote)
}

// Abort works with each fault.
func TestEveryFaultOfAbort(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		other := transaction(w, w.Look)
		w.Must(other.Begin(w.Ctx, twopc.Plan{Sites: []string{"a"}}))
		d, err := transaction(w, w.C).Abort(w.Ctx, "enough")
		if failed := err; gone(w, "abort", err) {
			d, err = other.Abort(w.Ctx, "after all")
			w.Must(err)
			if d.Reason == "enough" && !client.IsAmbiguous(failed) {
				w.Errorf("%s: it is aborted, but the error is not ambiguous: %v", w.Fault, failed)
			}
		} else if want := (twopc.Decision{Outcome: twopc.Abort, Reason: "enough"}); d != want {
			w.Errorf("%s: decision is %v", w.Fault, d)
		}
		mustDecide(w, background(w.Ctx, other.Await), twopc.Abort)
	})
}
