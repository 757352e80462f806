package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// errDeposed means that another consumer has the queue now.
var errDeposed = errors.New("another consumer has the queue")

// sole is the right to be the only consumer, which the first in a line has.
type sole struct {
	line *line.Line
	turn permit
	// The holder of turn owns these.
	place *line.Place
	hold  *line.Hold
}

// enter waits until this is the only consumer, and returns its place, or nil if there may
// be others. The place is not old, which was found to be lost. If wait is false and there
// is another consumer, the error wraps recipes.ErrNotHeld.
func (q *consumer) enter(ctx context.Context, wait bool, old *line.Place) (*line.Place, error) {
	s := q.sole
	if s == nil {
		return nil, nil
	}
	if err := s.turn.get(ctx); err != nil {
		return nil, err
	}
	defer s.turn.put()
	if s.place != nil && s.place != old && s.hold.Err() == nil {
		return s.place, nil
	}
	if err := s.leave(ctx); err != nil {
		return nil, err
	}
	place, err := s.line.Join(ctx, 0, nil)
	if err != nil {
		return nil, err
	}
	if err := s.first(ctx, place, wait); err != nil {
		return nil, errors.Join(err, place.Leave(ctx))
	}
	s.place, s.hold = place, place.Hold(context.WithoutCancel(ctx), line.HoldOptions{})
	return place, nil
}

func (s *sole) first(ctx context.Context, place *line.Place, wait bool) error {
	if wait {
		return place.Await(ctx, line.First)
	}
	first, err := place.Try(ctx, line.First)
	if err == nil && !first {
		err = fmt.Errorf("%w: another consumer has %s for itself", recipes.ErrNotHeld, s.line.Path)
	}
	return err
}

// leave gives up the place, if there is one. The caller has turn, or no call is under way.
func (s *sole) leave(ctx context.Context) error {
	if s.place == nil {
		return nil
	}
	hold := s.hold
	s.place, s.hold = nil, nil
	return hold.Release(ctx)
}

// guard returns operations that fail a multi unless the place exists.
func guard(place *line.Place) []client.Op {
	if place == nil {
		return nil
	}
	return place.Guard()
}
