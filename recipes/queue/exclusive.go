package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// errDeposed is that the queue is another consumer's now.
var errDeposed = errors.New("another consumer has the queue")

// sole is the right to be the one consumer. Whoever is first in a line has it.
type sole struct {
	line *line.Line
	turn permit
	// What follows is for whoever has turn.
	place *line.Place
	hold  *line.Hold
}

func newSole(c *client.Client, path string, acl []client.ACL) *sole {
	layout := &line.Layout{Labels: []string{"lock-"}}
	return &sole{line: &line.Line{Client: c, Path: path, Layout: layout, ACL: acl}, turn: newPermit()}
}

// enter returns the place that makes this the only consumer, once it does; nil if there
// may be others. It is not old, which has turned out to be lost. If wait is false it
// fails with recipes.ErrNotHeld if there is another consumer.
func (q *core) enter(ctx context.Context, wait bool, old *line.Place) (*line.Place, error) {
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

// leave gives up the place, if there is one. The caller has turn.
func (s *sole) leave(ctx context.Context) error {
	if s.place == nil {
		return nil
	}
	hold := s.hold
	s.place, s.hold = nil, nil
	return hold.Release(ctx)
}

// close is leave when no call is under way.
func (s *sole) close(ctx context.Context) error { return s.leave(ctx) }

// guard returns the operations that fail a multi unless the place is there.
func guard(place *line.Place) []client.Op {
	if place == nil {
		return nil
	}
	return place.Guard()
}
