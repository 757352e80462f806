package partitioner

import (
	"context"
	"iter"
	"reflect"
	"slices"
)

// Phase is what a Partitioner is at.
type Phase int

const (
	// Stopped: it does not run.
	Stopped Phase = iota
	// Allocating: it has not got all yet that is its own.
	Allocating
	// Acquired: it has all that is its own, and nothing else.
	Acquired
	// Releasing: it still has what is another member's, whose work has yet to return.
	Releasing
	// Failed: Run has ended, but not because its context did. State.Err says why.
	Failed
)

// String returns the phase's name in lower case.
func (p Phase) String() string {
	switch p {
	case Allocating:
		return "allocating"
	case Acquired:
		return "acquired"
	case Releasing:
		return "releasing"
	case Failed:
		return "failed"
	}
	return "stopped"
}

// State is how a Partitioner stands.
type State struct {
	Phase Phase
	// Members are the IDs of all who are there, as far as this one knows. Sorted.
	Members []string
	// Assigned are the partitions that are to be this member's, Owned those that it has
	// the locks of. Sorted.
	Assigned, Owned []string
	// Err is why the last Run has ended.
	Err error
}

// State returns how the Partitioner stands.
func (p *Partitioner) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stateLocked()
}

func (p *Partitioner) stateLocked() State {
	s := State{Members: slices.Clone(p.members), Assigned: slices.Sorted(slices.Values(p.own)), Owned: slices.Sorted(slices.Values(p.owned)), Err: p.err}
	switch {
	case !p.running && p.failed:
		s.Phase = Failed
	case !p.running:
		s.Phase = Stopped
	case p.tenures > len(p.own):
		s.Phase = Releasing
	case len(p.owned) < len(p.own) || len(p.members) == 0:
		s.Phase = Allocating
	default:
		s.Phase = Acquired
	}
	return s
}

// Follow returns how the Partitioner stands, and how it does with each change, from one
// Run to the next, until the loop or ctx ends. States that pass faster than the loop takes
// them are left out but for the last. An error is ctx's, and the last.
func (p *Partitioner) Follow(ctx context.Context) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		var last State
		for first := true; ; {
			p.mu.Lock()
			state, changed := p.stateLocked(), p.changed
			p.mu.Unlock()
			if first || !reflect.DeepEqual(state, last) {
				first, last = false, state
				if !yield(state, nil) {
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(state, context.Cause(ctx))
				return
			}
		}
	}
}
