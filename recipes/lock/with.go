package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
)

// Locker is a lock that can be waited for: a Mutex, an RWMutex, a Multi, or what Of returns.
type Locker interface {
	Lock(ctx context.Context) (*hold.Held, error)
}

// With waits for the lock, calls fn, and releases, even if fn panics. It returns what fn
// returns.
//
// The context of fn ends when the lock is lost, with a cause that wraps recipes.ErrLost, and
// when ctx ends; it has the values of ctx, and hold.FromContext returns the Held. If the
// lock was lost before fn returned, the error wraps recipes.ErrLost, and fn's own error if
// there is one. If no server answers at the end, so that it is not known whether the lock
// was lost, client.IsAmbiguous reports true for the error.
func With[T any](ctx context.Context, l Locker, fn func(ctx context.Context) (T, error)) (result T, err error) {
	held, err := l.Lock(ctx)
	if err != nil {
		return result, err
	}
	defer func() {
		lost := held.Err()
		released := held.Release(ctx)
		if lost != nil {
			released = fmt.Errorf("before the work under it was done: %w", lost)
		}
		err = both(err, released)
	}()
	return fn(held.Context())
}

// both returns one error for two. It does not repeat that something is lost.
func both(err, other error) error {
	switch {
	case other == nil, errors.Is(err, recipes.ErrLost) && errors.Is(other, recipes.ErrLost):
		return err
	case err == nil:
		return other
	}
	return fmt.Errorf("%w (%w)", err, other)
}

// merge returns a context derived from ctx that also ends when other does, with its cause,
// until stop is called.
func merge(ctx, other context.Context) (merged context.Context, stop func()) {
	merged, cancel := context.WithCancelCause(ctx)
	undo := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return merged, func() {
		undo()
		cancel(context.Canceled)
	}
}
