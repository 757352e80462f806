package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// taking is the way to n leases: n places among the leases, which are created before it is
// known whether there is room for them.
type taking struct {
	s      *Semaphore
	leases line.Line // in one session
	places []*line.Place
}

// take creates the places. If there is no room it waits for it, or else returns nil. The
// places belong to that session, or if that is 0 to any.
func (s *Semaphore) take(ctx context.Context, session client.SessionID, n int, wait bool) (*hold.Held, error) {
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
	return t.held(ctx), nil
}

func (t *taking) join(ctx context.Context, n int) error {
	for range n {
		place, err := t.leases.Join(ctx, 0, t.s.o.Data)
		if err != nil {
			return err
		}
		t.places = append(t.places, place)
		t.leases.Client = t.s.c.InSession(place.Session()) // they are held, and lost, together
	}
	return nil
}

// held returns what the caller holds by places for which there is room.
func (t *taking) held(ctx context.Context) *hold.Held {
	of := hold.Description{What: "leases of semaphore " + t.s.path}
	for _, place := range t.places {
		of.Nodes, of.Token = append(of.Nodes, place.Path()), place.Token()
	}
	return hold.New(ctx, of, func(ctx context.Context) hold.Tenure {
		var holds line.Holds
		ctx = context.WithoutCancel(ctx)
		for _, place := range t.places {
			h := place.Hold(ctx, line.HoldOptions{Reserve: t.s.o.Reserve})
			holds, ctx = append(holds, h), h.Context()
		}
		return holds
	})
}

func (t *taking) leave(ctx context.Context) error {
	var errs []error
	for _, place := range t.places {
		errs = append(errs, place.Leave(ctx))
	}
	return errors.Join(errs...)
}

// settle returns true once there is room, and false if it would have to wait but must not.
// It sets no watch when there is room.
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

// await reads the list once more, with watches, and waits for a change if there is no room.
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
		return false, deleted(t.places[0].Path())
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
	case <-listed.Events(): // or the session has ended, which the next list reports
	case <-another:
	case <-ctx.Done():
		return false, fmt.Errorf("wait for %s: %w", t.leases.Path, context.Cause(ctx))
	}
	return false, nil
}

// room reports whether all places are among the first ones of that number. All other
// holders of a lease are before them, and count as long as they exist. So there are never
// more.
func (t *taking) room(entries []line.Entry, limit int) (bool, error) {
	last := 0
	for _, place := range t.places {
		i := slices.IndexFunc(entries, func(e line.Entry) bool { return e.Name == line.Base(place.Path()) })
		if i < 0 {
			return false, deleted(place.Path())
		}
		last = max(last, i)
	}
	return last < limit, nil
}
