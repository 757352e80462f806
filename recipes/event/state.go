package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// state is the data of the event's node.
type state struct {
	Kind string `json:"kind"` // "manual" or "auto"
	// Set and Turn are a manual-reset event's: whether it is set, and how often that
	// has been done. Who waits has been released when Turn has changed, also if the
	// event is not set any more.
	Set  bool  `json:"set,omitempty"`
	Turn int64 `json:"turn,omitempty"`
	// Signals is an auto-reset event's: how often it was set for somebody who has not
	// taken it yet.
	Signals int `json:"signals,omitempty"`
	// Recent names the last changes, the newest last: it is how whoever made one knows
	// it again when the connection broke, also if others have come behind it.
	Recent []string `json:"recent,omitempty"`
}

// kept is how many changes Recent has.
const kept = 16

// note writes a change down.
func (s *state) note(change string) {
	s.Recent = append(s.Recent, change)
	s.Recent = s.Recent[max(len(s.Recent)-kept, 0):]
}

// errUnchanged is what a change says that has nothing to do.
var errUnchanged = errors.New("unchanged")

func (s *state) open() error {
	if s.Set {
		return errUnchanged
	}
	s.Set, s.Turn = true, s.Turn+1
	return nil
}

func (s *state) reset() error {
	if !s.Set && s.Signals == 0 {
		return errUnchanged
	}
	s.Set, s.Signals = false, 0
	return nil
}

func (s *state) encode() []byte {
	data, _ := json.Marshal(s) // it has nothing that can't be encoded
	return data
}

func (e *Event) kind() string {
	if e.o.AutoReset {
		return "auto"
	}
	return "manual"
}

// decode reads the state of an event of the right kind.
func (e *Event) decode(data []byte) (s state, err error) {
	if err := json.Unmarshal(data, &s); err != nil || s.Kind == "" {
		return s, fmt.Errorf("%w: %s has data that are not an event's; use another path", recipes.ErrLayout, e.path)
	}
	if s.Kind != e.kind() {
		return s, fmt.Errorf("%w: %s is an event with %s reset, not %s; see Options.AutoReset", recipes.ErrLayout, e.path, s.Kind, e.kind())
	}
	return s, nil
}

// read returns the state.
func (e *Event) read(ctx context.Context) (state, client.Stat, error) {
	node, err := e.c.Steady().Get(ctx, e.path)
	if err != nil {
		return state{}, node.Stat, err
	}
	s, err := e.decode(node.Data)
	return s, node.Stat, err
}

// ensure makes the event if there is none, and returns its state. It is persistent,
// since it has one.
func (e *Event) ensure(ctx context.Context) (state, client.Stat, error) {
	const rounds = 10 // a container may be deleted between being made and being used
	for round := 1; ; round++ {
		s, stat, err := e.read(ctx)
		if !errors.Is(err, client.ErrNoNode) {
			return s, stat, err
		}
		none := state{Kind: e.kind()}
		_, err = settle.Create(ctx, e.c, e.path, none.encode(), settle.CreateOptions{ACL: e.o.ACL})
		switch {
		case err == nil:
		case errors.Is(err, client.ErrNodeExists):
			err = e.c.Steady().Sync(ctx, e.path) // the server that we read from may not have it yet
		case errors.Is(err, client.ErrNoNode) && round < rounds:
			err = settle.Ensure(ctx, e.c, line.Parent(e.path), client.CreateOptions{Mode: client.Container, ACL: e.o.ACL})
		}
		if err != nil {
			return s, stat, err
		}
	}
}

// update changes the state, exactly once where that can be found out.
func (e *Event) update(ctx context.Context, fn func(*state) error) error {
	c := e.c.Steady()
	change := line.NewID()
	for {
		s, stat, err := e.ensure(ctx)
		if err != nil {
			return err
		}
		err = fn(&s)
		var done bool
		switch {
		case errors.Is(err, errUnchanged):
			// A server that is behind may have shown an old state, of which that isn't true.
			_, err = c.Multi(ctx, client.CheckOp(e.path, stat.Version))
			done = err == nil
			if client.IsAmbiguous(err) && ctx.Err() == nil {
				err = nil
			}
		case err == nil:
			s.note(change)
			_, err = c.Set(ctx, e.path, s.encode(), stat.Version)
			done = err == nil
			if client.IsAmbiguous(err) {
				done, err = e.done(ctx, change, stat, err)
			}
		}
		again := err == nil || !client.IsAmbiguous(err) && (errors.Is(err, client.ErrBadVersion) || errors.Is(err, client.ErrNoNode))
		if done || !again {
			return err
		}
	}
}

// errDoubt is why it can't be found out whether a change was made.
var errDoubt = errors.New("others have changed the event so often since that it can't be known")

// done finds out whether a change of which no reply came was made to the state that it
// was for. The servers refuse what was sent on a connection before this one.
func (e *Event) done(ctx context.Context, change string, old client.Stat, ambiguous error) (bool, error) {
	if err := e.c.Steady().Sync(ctx, e.path); err != nil {
		return false, line.InDoubt(ambiguous, err)
	}
	s, stat, err := e.read(ctx)
	switch {
	case err != nil:
		return false, line.InDoubt(ambiguous, err)
	case slices.Contains(s.Recent, change):
		return true, nil
	case stat.Czxid != old.Czxid || stat.Version-old.Version > kept:
		return false, line.InDoubt(ambiguous, errDoubt)
	}
	return false, nil
}
