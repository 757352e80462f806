package barrier

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Event is set or not, and processes wait until it is. It may be used from any goroutine.
type Event struct {
	base
	kind Kind
	line *line.Line // of those that wait for an AutoReset event
}

// Kind is the kind of an event, which must be the same for all that use it. The node
// records it.
type Kind string

const (
	// ManualReset events release all that wait, and stay set until Reset.
	ManualReset Kind = "manual"
	// AutoReset events release one waiter with each Set, in the order in which they came.
	AutoReset Kind = "auto"
)

// NewEvent returns the event at path. It sends no request: the first call that needs the
// event creates it, not set, and it stays until somebody deletes its node.
func NewEvent(c *client.Client, path string, kind Kind, o Options) (*Event, error) {
	b, err := newBase(c, "event", path, o)
	if err != nil {
		return nil, err
	}
	if kind != ManualReset && kind != AutoReset {
		return nil, fmt.Errorf("event: %w: there is no kind %q", client.ErrBadArguments, kind)
	}
	e := &Event{base: b, kind: kind}
	e.line = &line.Line{
		Client: c, Path: path, ACL: o.ACL, Layout: &line.Layout{Labels: []string{"waiter-"}},
		Make: func(ctx context.Context) error { _, _, err := e.ensure(ctx); return err }, // it may be deleted at any time
	}
	return e, nil
}

// Set sets the event. A ManualReset event releases all that wait, and those that come
// until Reset. An AutoReset event releases the first waiter that no other Set has
// released; if there is none, the next one that comes, but only one Set is remembered.
//
// If the error IsAmbiguous, the event may have been set: the session or ctx has ended, or
// others changed the event many times while the connection was down.
func (e *Event) Set(ctx context.Context) error {
	return e.wrap(ctx, "set", e.update(ctx, func(s *state) (bool, error) {
		if e.kind == AutoReset {
			const remembered = 1
			return true, e.signal(ctx, s, remembered) // a write even if nothing changes proves that the list was current
		}
		changed := !s.Set
		if changed {
			s.Set, s.Turn = true, s.Turn+1
		}
		return changed, nil
	}))
}

// signal adds a signal if there are fewer than waiters and more. It asks the leader, since
// this server may not know yet of waiters that have come or gone.
func (e *Event) signal(ctx context.Context, s *state, more int) error {
	if s.Signals < more {
		s.Signals++
		return nil
	}
	if err := e.c.Steady().Sync(ctx, e.path); err != nil {
		return err
	}
	waiting, err := e.line.List(ctx)
	if err == nil && s.Signals < len(waiting)+more {
		s.Signals++
	}
	return err
}

// Pulse releases those that wait now and that Set would release, and leaves the event not
// set. Ambiguous errors are as with Set.
func (e *Event) Pulse(ctx context.Context) error {
	return e.wrap(ctx, "pulse", e.update(ctx, func(s *state) (bool, error) {
		if e.kind == AutoReset {
			return true, e.signal(ctx, s, 0)
		}
		s.Turn, s.Set = s.Turn+1, false
		return true, nil
	}))
}

// Reset makes the event not set. It takes back each Set of an AutoReset event that has
// released nobody yet.
func (e *Event) Reset(ctx context.Context) error {
	return e.wrap(ctx, "reset", e.update(ctx, func(s *state) (bool, error) {
		changed := s.isSet()
		s.Set, s.Signals = false, 0
		return changed, nil
	}))
}

// IsSet reports whether a Wait would return at once if nobody else waited.
func (e *Event) IsSet(ctx context.Context) (bool, error) {
	if err := e.c.Steady().Sync(ctx, e.path); err != nil {
		return false, e.wrap(ctx, "look at", err)
	}
	s, _, err := e.read(ctx)
	if errors.Is(err, client.ErrNoNode) {
		return false, nil
	}
	return s.isSet(), e.wrap(ctx, "look at", err)
}

// Wait waits until the event is set, and takes the signal of an AutoReset event. If it
// fails it has taken nothing, unless the error IsAmbiguous: then the session or ctx has
// ended while it took the signal.
func (e *Event) Wait(ctx context.Context) error {
	wait := e.follow
	if e.kind == AutoReset {
		wait = e.take
	}
	return e.wrap(ctx, "wait for", wait(ctx))
}

// follow waits until a ManualReset event is set, or was set meanwhile.
func (e *Event) follow(ctx context.Context) error {
	c := e.c.Steady()
	if err := c.Sync(ctx, e.path); err != nil { // the server may not know of a Reset yet
		return err
	}
	first, made, err := e.ensure(ctx)
	if err != nil || first.Set {
		return err
	}
	for {
		node, err := c.GetW(ctx, e.path)
		if err != nil {
			return err
		}
		s, err := e.decode(node.Data)
		if node.Stat.Czxid != made.Czxid { // somebody deleted the event, and it was created again
			first, made = s, node.Stat
		}
		if err != nil || s.Set || s.Turn != first.Turn {
			line.DropWatch(ctx, node.Watch)
			return err
		}
		if _, err := line.Next(ctx, node.Watch); err != nil {
			return err
		}
	}
}
