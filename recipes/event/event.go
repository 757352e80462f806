package event

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Event is something that processes wait for: it is set, or it is not. It may be used
// from any goroutine.
type Event struct {
	c    *client.Client
	path string
	o    Options
	line *line.Line // of those who wait for an auto-reset event
}

// Options are what an Event can be told. The zero value is good for most.
type Options struct {
	// AutoReset makes each Set release one of those who wait, the first one, and be
	// over with that. Otherwise a Set releases all, and the event stays set until
	// Reset. It has to be the same for all who use the event.
	AutoReset bool
	// ACL is that of new nodes; nil is client.OpenACL.
	ACL []client.ACL
}

// New returns the event at path. Nothing is asked of the servers yet; the event is made,
// not set, when it is first used.
func New(c *client.Client, path string, o Options) (*Event, error) {
	if c == nil {
		return nil, fmt.Errorf("event: %w: client is nil", client.ErrBadArguments)
	}
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("event: path: %w", err)
	}
	e := &Event{c: c, path: path, o: o}
	e.line = &line.Line{
		Client: c, Path: path, ACL: o.ACL, Layout: &line.Layout{Labels: []string{"waiter-"}},
		Make: func(ctx context.Context) error { _, _, err := e.ensure(ctx); return err }, // it may be deleted at any time
	}
	return e, nil
}

// Set sets the event. Of a manual-reset event it releases all that wait, and those who
// come until Reset. Of an auto-reset event it releases the first one that waits and has
// not been released by another Set; if there is none it is remembered for the next one
// who comes, but only once.
//
// If the error IsAmbiguous it may have been set: the session has ended, or ctx, or the
// connection was down while others changed the event many times.
func (e *Event) Set(ctx context.Context) error {
	return e.wrap(ctx, "set", e.update(ctx, func(s *state) error {
		if !e.o.AutoReset {
			return s.open()
		}
		const remembered = 1
		return e.signal(ctx, s, remembered) // it is written also where it changes nothing: so the list is of that time
	}))
}

// signal adds a signal, unless there is one already for each who waits, and as many more
// as that. Who waits is asked of the leader: this server may not have heard yet who has
// come, and who has gone.
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

// Pulse releases whom Set would release among those that wait now, and leaves the event
// unset for those who come later. Ambiguous errors are as with Set.
func (e *Event) Pulse(ctx context.Context) error {
	return e.wrap(ctx, "pulse", e.update(ctx, func(s *state) error {
		if !e.o.AutoReset {
			s.Turn, s.Set = s.Turn+1, false
			return nil
		}
		return e.signal(ctx, s, 0)
	}))
}

// Reset has those wait who come from now on. Of an auto-reset event it takes back each
// Set that has released nobody yet.
func (e *Event) Reset(ctx context.Context) error {
	return e.wrap(ctx, "reset", e.update(ctx, (*state).reset))
}

// IsSet reports whether a Wait would return at once, if nobody else waited.
func (e *Event) IsSet(ctx context.Context) (bool, error) {
	if err := e.c.Steady().Sync(ctx, e.path); err != nil {
		return false, e.wrap(ctx, "look at", err)
	}
	s, _, err := e.read(ctx)
	if errors.Is(err, client.ErrNoNode) {
		return false, nil
	}
	return s.Set || s.Signals > 0, e.wrap(ctx, "look at", err)
}

// Wait waits until the event is set, and if it is an auto-reset event takes that for
// itself. If it fails it has taken nothing, unless the error IsAmbiguous: then the
// session has ended, or ctx, in the moment of taking, and nobody knows.
func (e *Event) Wait(ctx context.Context) error {
	if e.o.AutoReset {
		return e.wrap(ctx, "wait for", e.take(ctx))
	}
	return e.wrap(ctx, "wait for", e.watch(ctx))
}

// watch waits for a manual-reset event: until it is set, or has been.
func (e *Event) watch(ctx context.Context) error {
	c := e.c.Steady()
	if err := c.Sync(ctx, e.path); err != nil { // else a Reset may not be known yet
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
		if node.Stat.Czxid != made.Czxid { // somebody has deleted it, and it was made anew
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

func (e *Event) wrap(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s event %s: %w", what, e.path, line.Why(ctx, err))
}
