package event

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// take waits for an auto-reset event: in line, and then for a signal.
func (e *Event) take(ctx context.Context) error {
	if _, _, err := e.ensure(ctx); err != nil {
		return err
	}
	place, err := e.line.Join(ctx, 0, nil)
	if err != nil {
		return err
	}
	t := &taking{Event: e, c: e.c.Steady().InSession(place.Session()), place: place}
	err = place.Await(ctx, line.First)
	if err == nil {
		err = t.signal(ctx)
	}
	if err != nil {
		_ = place.Leave(ctx) // it goes with the session at the latest
	}
	return err
}

// taking is the first one's wait for a signal.
type taking struct {
	*Event
	c     *client.Client // for the session of the place
	place *line.Place
}

// signal waits until there is one. Only the first in line watches the event.
func (t *taking) signal(ctx context.Context) error {
	for {
		node, err := t.c.GetW(ctx, t.path)
		if err != nil {
			return err
		}
		s, err := t.decode(node.Data)
		switch {
		case err != nil:
			line.DropWatch(ctx, node.Watch)
			return err
		case s.Signals == 0:
			_, err = line.Next(ctx, node.Watch)
		default:
			var taken bool
			taken, err = t.consume(ctx, s, node.Stat)
			line.DropWatch(ctx, node.Watch)
			if taken {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// consume takes a signal and leaves the line, in one change: so a signal is taken once,
// and one whose taker dies before that is there for the next. False without an error is
// that the event has changed.
func (t *taking) consume(ctx context.Context, s state, old client.Stat) (bool, error) {
	change := line.Base(t.place.Path())
	s.Signals--
	s.note(change)
	_, err := t.c.Multi(ctx,
		client.SetOp(t.path, s.encode(), old.Version),
		client.DeleteOp(t.place.Path(), client.AnyVersion))
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, client.ErrBadVersion):
		return false, nil
	case errors.Is(err, client.ErrNoNode):
		return false, fmt.Errorf("%w: %w", recipes.ErrLost, err)
	case !client.IsAmbiguous(err):
		return false, err
	}
	const patience = 2 * time.Second // what was taken is not to be lost as ctx has ended
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return t.done(ctx, change, old, err)
}
