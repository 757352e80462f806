package barrier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// take waits for an AutoReset event: until it is first in line, and then for a signal.
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
		_ = place.Leave(ctx) // the session deletes it at the latest
	}
	return err
}

// taking is the wait for a signal by the first in line, which alone watches the event.
type taking struct {
	*Event
	c     *client.Client // bound to the session of the place
	place *line.Place
}

// signal waits until there is a signal, and takes it.
func (t *taking) signal(ctx context.Context) error {
	for {
		node, err := t.c.GetW(ctx, t.path)
		if err != nil {
			return err
		}
		s, err := t.decode(node.Data)
		var taken bool
		switch {
		case err == nil && s.Signals == 0:
			_, err = line.Next(ctx, node.Watch)
		case err == nil:
			taken, err = t.consume(ctx, s, node.Stat)
			fallthrough
		default:
			line.DropWatch(ctx, node.Watch)
		}
		if taken || err != nil {
			return err
		}
	}
}

// consume takes a signal and leaves the line in one change. So a signal is taken once, and
// if its taker dies before that it is there for the next. It returns false if the event
// has changed.
func (t *taking) consume(ctx context.Context, s state, old client.Stat) (bool, error) {
	change := line.Base(t.place.Path())
	s.Signals--
	_, err := t.c.Multi(ctx,
		client.SetOp(t.path, s.encode(change), old.Version),
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
	const patience = 2 * time.Second // a signal that was taken must not be lost because ctx has ended
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return t.wasDone(ctx, change, old, err)
}
