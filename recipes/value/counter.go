package value

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/lock"
)

// DefaultTries is the default of CounterOptions.Tries.
const DefaultTries = 10

// CounterOptions configure a Counter. The zero value is good for most.
type CounterOptions struct {
	// Layout is how the node's data represent the number.
	Layout Layout
	// Seed is the number while there is no node.
	Seed int64
	// Exact is as in Options. The Counter must be closed.
	Exact bool
	// Lock is the path of a lock that a change acquires after Tries failures because
	// others were faster: its holders do not spoil each other's attempts. Without it such
	// a change tries again at once.
	Lock string
	// Tries is how often a change is tried without the lock. 0 means DefaultTries.
	Tries int
	// ACL is the access list of new nodes; nil means client.OpenACL.
	ACL []client.ACL
}

// Counter is a Value that is a number. Add counts; the methods of Value are there, too.
type Counter struct {
	*Value[int64]
	mutex *lock.Mutex // nil without CounterOptions.Lock
	tries int
}

// NewCounter returns the counter at path. It sends no request.
func NewCounter(c *client.Client, path string, o CounterOptions) (*Counter, error) {
	if o.Layout < Long || o.Layout > Decimal {
		return nil, fmt.Errorf("counter: Options.Layout is %d: it should be Long, Int or Decimal: %w", o.Layout, client.ErrBadArguments)
	}
	if o.Tries < 0 {
		return nil, fmt.Errorf("counter: Options.Tries is %d: it should be 0 or more: %w", o.Tries, client.ErrBadArguments)
	}
	if o.Tries == 0 {
		o.Tries = DefaultTries
	}
	codec := codec{o.Layout, o.Seed}
	if _, err := codec.Encode(o.Seed); err != nil {
		return nil, fmt.Errorf("counter: Options.Seed: %w", err)
	}
	v, err := New(c, path, Options[int64]{Codec: codec, Seed: o.Seed, Exact: o.Exact, ACL: o.ACL})
	if err != nil {
		return nil, fmt.Errorf("counter: %w", err)
	}
	n := &Counter{Value: v, tries: o.Tries}
	if o.Lock != "" {
		if n.mutex, err = lock.New(c, o.Lock, lock.Options{ACL: o.ACL}); err != nil {
			return nil, fmt.Errorf("counter: Options.Lock: %w", err)
		}
	}
	return n, nil
}

// Change is what a count has done, and what it took.
type Change struct {
	Before, After int64
	// Tries is the number of attempts, and Locked the number of those with the lock. In
	// all but the last, others were faster. They are set if the count failed, too.
	Tries, Locked int
}

// Increment adds 1.
func (n *Counter) Increment(ctx context.Context) (Change, error) { return n.Add(ctx, 1) }

// Add adds delta, which may be negative. If the sum does not fit, the error wraps
// ErrOverflow. If an error is not ambiguous (see the package's documentation), nothing was
// done.
func (n *Counter) Add(ctx context.Context, delta int64) (Change, error) {
	return n.change(ctx, func(before int64) (int64, error) { return add(before, delta) })
}

// CompareAndSet replaces the number if it is old, however often it has changed since the
// caller read it, and reports whether it was. A server that lags behind does not decide
// that.
func (n *Counter) CompareAndSet(ctx context.Context, old, to int64) (bool, error) {
	errDiffers := errors.New("differs")
	for {
		now, _, err := n.compute(ctx, func(is int64) (int64, error) {
			if is != old {
				return 0, errDiffers
			}
			return to, nil
		})
		if errors.Is(err, errDiffers) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if _, err = n.TrySet(ctx, now, to); !Conflict(err) {
			return err == nil, err
		}
	}
}

// change replaces the number by what fn returns for it: at first without the lock, and
// then with it.
func (n *Counter) change(ctx context.Context, fn func(int64) (int64, error)) (Change, error) {
	var did Change
	for n.mutex == nil || did.Tries < n.tries {
		if again, err := n.try(ctx, fn, &did); !again {
			return did, err
		}
	}
	held, err := n.mutex.Lock(ctx)
	if err != nil {
		return did, line.Settled(err, nil) // a place in the line may be in doubt, but not the number
	}
	defer held.Unlock(ctx) // an error does no harm to what was done
	for {
		did.Locked++
		if again, err := n.try(ctx, fn, &did); !again {
			return did, err
		}
	}
}

// try changes the number, unless somebody else is faster.
func (n *Counter) try(ctx context.Context, fn func(int64) (int64, error), did *Change) (again bool, err error) {
	did.Tries++
	old, to, err := n.compute(ctx, func(before int64) (int64, error) {
		after, err := fn(before)
		if err != nil {
			err = fmt.Errorf("count at %s: %w", n.path, err)
		}
		return after, err
	})
	if err != nil {
		return false, err
	}
	if _, err = n.TrySet(ctx, old, to); err != nil {
		return Conflict(err), err
	}
	did.Before, did.After = old.Value, to
	return false, nil
}
