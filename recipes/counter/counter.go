package counter

import (
	"context"
	"fmt"
	"iter"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/typed"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/lock"
	"github.com/zkd-project/zkd/recipes/value"
)

// DefaultTries is how often a change is tried before the lock is asked for, unless
// Options.Tries says otherwise.
const DefaultTries = 10

// Options are what a Counter can be told. The zero value is good for most.
type Options struct {
	// Layout is how the node's data stand for the number.
	Layout Layout
	// Seed is the number as long as there is no node.
	Seed int64
	// Exact finds out in all cases what has become of a count whose reply is
	// lost, while the session lives: see value.Options. The Counter must be closed.
	Exact bool
	// Lock is the path of a lock that is asked for when a change has lost against
	// others Tries times: those that hold it one after the other don't spoil each
	// other's tries. Empty is for no lock: who loses tries again at once.
	Lock string
	// Tries is how often a change is tried without the lock. 0 is DefaultTries.
	Tries int
	// ACL is that of new nodes; nil is client.OpenACL.
	ACL []client.ACL
}

// Counter is a number at a path. All methods may be called from any goroutine.
type Counter struct {
	c     *client.Client
	v     *value.Value[int64]
	mutex *lock.Mutex // nil without Options.Lock
	tries int
}

// New returns the counter at path. It does not talk to the servers.
func New(c *client.Client, path string, o Options) (*Counter, error) {
	if o.Layout < Long || o.Layout > Decimal {
		return nil, fmt.Errorf("counter: Options.Layout is %d: it should be Long, Int or Decimal: %w", o.Layout, client.ErrBadArguments)
	}
	if o.Tries < 0 {
		return nil, fmt.Errorf("counter: Options.Tries is %d: it should be 0 or more: %w", o.Tries, client.ErrBadArguments)
	}
	codec := codec{o.Layout, o.Seed}
	if _, err := codec.Encode(o.Seed); err != nil {
		return nil, fmt.Errorf("counter: Options.Seed: %w", err)
	}
	v, err := value.New(c, path, value.Options[int64]{Codec: codec, Seed: o.Seed, Exact: o.Exact, ACL: o.ACL})
	if err != nil {
		return nil, fmt.Errorf("counter: %w", err)
	}
	n := &Counter{c: c.Steady(), v: v, tries: o.Tries}
	if n.tries == 0 {
		n.tries = DefaultTries
	}
	if o.Lock != "" {
		if n.mutex, err = lock.NewMutex(c, o.Lock, lock.Options{Options: hold.Options{ACL: o.ACL}}); err != nil {
			return nil, fmt.Errorf("counter: Options.Lock: %w", err)
		}
	}
	return n, nil
}

// Path returns the node's path.
func (n *Counter) Path() string { return n.v.Path() }

// Get returns the number as the server knows it, which may lag behind: a
// client.Client.Sync before makes it that of now. If there is no node it is the seed. The
// error wraps typed.ErrData if the node's data is no number.
func (n *Counter) Get(ctx context.Context) (typed.Value[int64], error) { return n.v.Get(ctx) }

// Follow returns the number as it is now and after each change, skipping those that are
// not the newest any more: see value.Value.Follow.
func (n *Counter) Follow(ctx context.Context) iter.Seq2[typed.Value[int64], error] {
	return n.v.Follow(ctx)
}

// Change is what a change has done, and what it took.
type Change struct {
	Before, After int64
	// Tries is how often it was tried, and Locked how many of these were with the
	// lock. All but the last one have lost against others. An error leaves it to them
	// to say how it went until then.
	Tries, Locked int
}

// Increment adds 1.
func (n *Counter) Increment(ctx context.Context) (Change, error) { return n.Add(ctx, 1) }

// Add adds delta, which may be negative. ErrOverflow if the sum does not fit. See the
// package's documentation for when an error is ambiguous; else nothing was done.
func (n *Counter) Add(ctx context.Context, delta int64) (Change, error) {
	return n.change(ctx, func(before int64) (int64, error) { return add(before, delta) })
}

// Set replaces the number, whatever it is, also if the node's data is none.
func (n *Counter) Set(ctx context.Context, to int64) (typed.Value[int64], error) {
	return n.v.Set(ctx, to)
}

// TrySet replaces the number if it is still that which Get, Follow or TrySet has
// returned, and of the same version: see value.Value.TrySet.
func (n *Counter) TrySet(ctx context.Context, old typed.Value[int64], to int64) (typed.Value[int64], error) {
	return n.v.TrySet(ctx, old, to)
}

// CompareAndSet replaces the number if it is old, however often it has changed since
// the caller saw it. It reports whether that was so: not of what a server knew that lags
// behind.
func (n *Counter) CompareAndSet(ctx context.Context, old, to int64) (bool, error) {
	for synced := false; ; {
		now, err := n.v.Get(ctx)
		if err == nil && now.Value != old && !synced {
			synced = true
			if err = n.c.Sync(ctx, n.Path()); err == nil {
				continue
			}
		}
		if err != nil || now.Value != old {
			return false, err
		}
		_, err = n.v.TrySet(ctx, now, to)
		if !value.Conflict(err) {
			return err == nil, err
		}
	}
}

// Close deletes the marks of a Counter that is Exact: see value.Value.Close.
func (n *Counter) Close(ctx context.Context) error { return n.v.Close(ctx) }

// change replaces the number by what fn makes of it: at first hoping that nobody else
// does so at the same time, and then with the lock.
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
	// That it can't be unlocked, or is lost, does no harm to what is done.
	defer held.Release(ctx)
	for {
		did.Locked++
		if again, err := n.try(ctx, fn, &did); !again {
			return did, err
		}
	}
}

// try makes the change if nobody is faster.
func (n *Counter) try(ctx context.Context, fn func(int64) (int64, error), did *Change) (again bool, err error) {
	did.Tries++
	old, to, err := n.next(ctx, fn)
	if err != nil {
		return false, err
	}
	if _, err = n.v.TrySet(ctx, old, to); err != nil {
		return value.Conflict(err), err
	}
	did.Before, did.After = old.Value, to
	return false, nil
}

// next returns the number and what fn makes of it. If that is an error, of a number that
// may be an old one, it is what fn makes of the one that the leader knows.
func (n *Counter) next(ctx context.Context, fn func(int64) (int64, error)) (old typed.Value[int64], to int64, err error) {
	for synced := false; ; synced = true {
		if old, err = n.v.Get(ctx); err != nil {
			return old, 0, err
		}
		if to, err = fn(old.Value); err == nil {
			return old, to, nil
		}
		if synced {
			return old, 0, fmt.Errorf("count at %s: %w", n.v.Path(), err)
		}
		if err = n.c.Sync(ctx, n.Path()); err != nil {
			return old, 0, err
		}
	}
}
