package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/recipes"
)

// Holding is what one has of a lock of any recipe.
type Holding interface {
	// Context ends when the lock is lost or unlocked.
	Context() context.Context
	// Err returns nil while the lock is held.
	Err() error
	// Unlock gives the lock up.
	Unlock(ctx context.Context) error
}

// Locker is a lock that can be waited for: a Mutex, a Multi, or one of another recipe.
type Locker[H Holding] interface {
	Lock(ctx context.Context) (H, error)
}

// With waits for the lock, calls fn, and unlocks, also if fn panics. It returns what fn
// returns.
//
// The context that fn gets ends when the lock is lost, with a cause that wraps
// recipes.ErrLost, and when ctx ends; it has the values of ctx. If the lock was lost
// before fn had returned, the error wraps recipes.ErrLost, and fn's own if there is one. If
// that can't be found out, as no server answers at the end, client.IsAmbiguous says so of
// the error: see Held.Unlock.
func With[T any, H Holding](ctx context.Context, l Locker[H], fn func(ctx context.Context) (T, error)) (result T, err error) {
	held, err := l.Lock(ctx)
	if err != nil {
		return result, err
	}
	working, stop := merge(held.Context(), ctx)
	defer func() {
		stop()
		lost := held.Err()
		unlocked := held.Unlock(ctx)
		if lost != nil {
			unlocked = fmt.Errorf("before the work under it was done: %w", lost)
		}
		err = both(err, unlocked)
	}()
	return fn(working)
}

// both returns one error of two. That something is lost is said once.
func both(err, other error) error {
	switch {
	case other == nil, errors.Is(err, recipes.ErrLost) && errors.Is(other, recipes.ErrLost):
		return err
	case err == nil:
		return other
	}
	return fmt.Errorf("%w (%w)", err, other)
}

// merge returns ctx ending also when the other does, with its cause, until stop.
func merge(ctx, other context.Context) (merged context.Context, stop func()) {
	merged, cancel := context.WithCancelCause(ctx)
	undo := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return merged, func() {
		undo()
		cancel(context.Canceled)
	}
}
