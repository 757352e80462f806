package semaphore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// taking is the way to a lease: n places among the leases, made before anybody knows
// whether there is room for them.
type taking struct {
	s      *Semaphore
	leases line.Line // in one session
	places []*line.Place
}

// take makes the places and waits for there to be room, if it is to: otherwise it returns
// nil if there is none. The places are of that session, or if that is 0 of any.
func (s *Semaphore) take(ctx context.Context, session client.SessionID, n int, wait bool) (*Lease, error) {
	t := &taking{s: s, leases: *s.leases}
	t.leases.Client = s.c.InSession(session)
	room := false
	err := t.join(ctx, n)
	if err == nil {
		room, err = t.settle(ctx, wait)
	}
	if !room || err != nil {
		return nil, errors.Join(err, t.leave(ctx))
	}
	return t.lease(ctx), nil
}

func (t *taking) join(ctx context.Context, n int) error {
	for range n {
		place, err := t.leases.Join(ctx, 0, t.s.o.Data)
		if err != nil {
			return err
		}
		t.places = append(t.places, place)
		t.leases.Client = t.s.c.InSession(place.Session()) // they are had together, and lost
	}
	return nil
}

func (t *taking) leave(ctx context.Context) error {
	var errs []error
	for _, place := range t.places {
		errs = append(errs, place.Leave(ctx))
	}
	return errors.Join(errs...)
}

// settle returns true once there is room, and false if it were to wait. It sets no watch
// when there is room.
func (t *taking) settle(ctx context.Context, wait bool) (bool, error) {
	for {
		limit, err := t.s.limit(ctx)
		if err != nil {
			return false, err
		}
		entries, err := t.leases.List(ctx)
		if err != nil {
			return false, err
		}
		room, err := t.room(entries, limit)
		if room || err != nil || !wait {
			return room, err
		}
		if room, err = t.await(ctx); room || err != nil {
			return room, err
		}
	}
}

// await looks once more, with watches, and if there is no room waits for a change.
func (t *taking) await(ctx context.Context) (bool, error) {
	limit, changed, err := t.s.limitW(ctx)
	if err != nil {
		return false, err
	}
	if changed != nil {
		defer line.DropWatch(ctx, changed)
	}
	entries, listed, err := t.leases.LookW(ctx)
	if errors.Is(err, client.ErrNoNode) {
		return false, t.gone(t.places[0])
	}
	if err != nil {
		return false, err
	}
	defer line.DropWatch(ctx, listed)
	room, err := t.room(entries, limit)
	if room || err != nil {
		return room, err
	}
	var another <-chan client.Event
	if changed != nil {
		another = changed.Events()
	}
	select {
	case <-listed.Events(): // or the session has ended, which the next look tells
	case <-another:
	case <-ctx.Done():
		return false, fmt.Errorf("wait for %s: %w", t.leases.Path, context.Cause(ctx))
	}
	return false, nil
}

// room reports whether all places are among the first of that number. All others that
// hold a lease are before them, and go on being counted as long as they exist: so there
// are never more.
func (t *taking) room(entries []line.Entry, limit int) (bool, error) {
	last := 0
	for _, place := range t.places {
		i := slices.IndexFunc(entries, func(e line.Entry) bool { return e.Name == line.Base(place.Path()) })
		if i < 0 {
			return false, t.gone(place)
		}
		last = max(last, i)
	}
	return last < limit, nil
}

func (t *taking) gone(place *line.Place) error {
	return fmt.Errorf("%w: %s was deleted", recipes.ErrLost, place.Path())
}
