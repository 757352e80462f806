package twopc_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/twopc"
)

// Transaction after transaction of both kinds and in both modes, while connections
// break, sessions end and leaders are killed. Some sites vote to abort, and sometimes another
// client calls Abort. All learn the decision and learn the same one, which is to commit only
// if all sites have voted to commit.
func TestStorm(t *testing.T) {
	trial.Storms(t, trial.Weather{Seeds: 3}, func(s *trial.Storm) {
		rng := rand.New(rand.NewPCG(s.Seed, 1))
		commits, aborts := 0, 0
		for i := 0; i < 3 || !s.Over(); i++ {
			st := &stormy{Storm: s, path: fmt.Sprintf("/tx/%d", i), votes: map[string]twopc.Outcome{}}
			if st.run(rng) == twopc.Commit {
				commits++
			} else {
				aborts++
			}
		}
		s.Logf("%d transactions were committed, %d aborted", commits, aborts)
	})
}

// stormy is one transaction in a storm.
type stormy struct {
	*trial.Storm
	path string

	mu    sync.Mutex
	votes map[string]twopc.Outcome // of the sites that have called Vote
	seen  []twopc.Decision
}

func (st *stormy) run(rng *rand.Rand) twopc.Outcome {
	plan := twopc.Plan{Ephemeral: rng.IntN(2) == 0}
	for i := range st.Clients() {
		plan.Sites = append(plan.Sites, fmt.Sprintf("s%d", i))
	}
	look := st.transaction(st.Look)
	if err := look.Begin(st.Ctx, plan); err != nil {
		st.Fatal(err)
	}
	peers := rng.IntN(2) == 0
	var work sync.WaitGroup
	for i, name := range plan.Sites {
		vote := twopc.Commit
		if rng.IntN(10) == 0 {
			vote = twopc.Abort
		}
		work.Go(func() { st.site(i, name, vote, peers) })
	}
	if rng.IntN(8) == 0 {
		work.Go(func() { st.note(st.transaction(st.Client(0)).Abort(st.Ctx, "from outside")) })
	}
	st.note(look.Decide(st.Ctx)) // this client has no faults, so all others finish
	work.Wait()
	d, err := look.Decide(st.Ctx)
	if err != nil {
		st.Fatal(err)
	}
	for _, seen := range st.seen {
		if seen != d {
			st.Errorf("%s: one has seen %v, but the decision is %v", st.path, seen, d)
		}
	}
	for _, name := range plan.Sites {
		if st.votes[name] != twopc.Commit && d.Outcome == twopc.Commit {
			st.Errorf("%s: committed, but the vote of %s is %q", st.path, name, st.votes[name])
		}
	}
	if err := look.End(st.Ctx); err != nil {
		st.Error(err)
	}
	return d.Outcome
}

func (st *stormy) transaction(c *client.Client) *twopc.Transaction {
	tx, err := twopc.New(c, st.path, twopc.Options{})
	if err != nil {
		st.Fatal(err)
	}
	return tx
}

// note records the decision that a call returned, and reports whether there was one.
func (st *stormy) note(d twopc.Decision, err error) bool {
	if !st.Explain(st.path, err) {
		return false
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.seen = append(st.seen, d)
	return true
}

// site does a site's work until it knows the decision, with several sessions if necessary.
func (st *stormy) site(i int, name string, vote twopc.Outcome, peers bool) {
	for st.Ctx.Err() == nil {
		tx := st.transaction(st.Client(i))
		s, err := tx.Join(st.Ctx, name)
		if err == nil {
			st.mu.Lock()
			st.votes[name] = vote // it may be done, though there is an error
			st.mu.Unlock()
			err = s.Vote(st.Ctx, vote)
		}
		if err != nil && !trial.Passing(err) {
			st.Errorf("%s: %v", st.path, err)
			return
		}
		wait := tx.Await
		if peers {
			wait = tx.Decide
		}
		if err == nil && st.note(wait(st.Ctx)) {
			return
		}
	}
}
