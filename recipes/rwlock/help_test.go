package rwlock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/rwlock"
)

// locker is what both kinds of lock can do, whatever the priority.
type locker interface {
	take(ctx context.Context, kind rwlock.Kind, priority int32) (*rwlock.Held, error)
	try(ctx context.Context, kind rwlock.Kind, priority int32) (*rwlock.Held, bool, error)
	Contenders(ctx context.Context) ([]rwlock.Contender, error)
	Revoke(ctx context.Context, who rwlock.Contender, grace time.Duration) (rwlock.Outcome, error)
	Break(ctx context.Context, who rwlock.Contender) (rwlock.Contender, error)
}

type plain struct{ *rwlock.RWLock }

func (l plain) take(ctx context.Context, kind rwlock.Kind, _ int32) (*rwlock.Held, error) {
	if kind == rwlock.Write {
		return l.Lock(ctx)
	}
	return l.RLock(ctx)
}

func (l plain) try(ctx context.Context, kind rwlock.Kind, _ int32) (*rwlock.Held, bool, error) {
	if kind == rwlock.Write {
		return l.TryLock(ctx)
	}
	return l.TryRLock(ctx)
}

type priority struct{ *rwlock.Priority }

func (l priority) take(ctx context.Context, kind rwlock.Kind, p int32) (*rwlock.Held, error) {
	if kind == rwlock.Write {
		return l.Lock(ctx, p)
	}
	return l.RLock(ctx, p)
}

func (l priority) try(ctx context.Context, kind rwlock.Kind, p int32) (*rwlock.Held, bool, error) {
	if kind == rwlock.Write {
		return l.TryLock(ctx, p)
	}
	return l.TryRLock(ctx, p)
}

// lockers makes each kind of lock.
var lockers = map[string]func(c *client.Client, path string, o rwlock.Options) (locker, error){
	"plain": func(c *client.Client, path string, o rwlock.Options) (locker, error) {
		l, err := rwlock.New(c, path, o)
		return plain{l}, err
	},
	"priority": func(c *client.Client, path string, o rwlock.Options) (locker, error) {
		l, err := rwlock.NewPriority(c, path, o)
		return priority{l}, err
	},
}

// both runs a test with each kind of lock.
func both(t *testing.T, fn func(w *trial.World, lock func(c *client.Client, o rwlock.Options) locker)) {
	for name, make := range lockers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := trial.New(t)
			fn(w, func(c *client.Client, o rwlock.Options) locker {
				l, err := make(c, "/lock", o)
				w.Must(err)
				return l
			})
		})
	}
}

// wanted is a lock that somebody waits for.
type wanted struct {
	*trial.World
	done chan struct{}
	held *rwlock.Held
	err  error
}

// want begins to ask for a lock, and returns once its place is there.
func want(w *trial.World, l locker, kind rwlock.Kind, p int32) *wanted {
	w.Helper()
	before := w.Children("/lock")
	a := &wanted{World: w, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.held, a.err = l.take(w.Ctx, kind, p)
	}()
	w.AwaitAnother("/lock", before)
	return a
}

// get returns the lock once it is held.
func (a *wanted) get() *rwlock.Held {
	a.Helper()
	<-a.done
	a.Must(a.err)
	return a.held
}

// waits reports whether it is not there yet.
func (a *wanted) waits() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// unlock gives a lock back without an error.
func unlock(w *trial.World, held ...*rwlock.Held) {
	w.Helper()
	for _, h := range held {
		w.Must(h.Unlock(w.Ctx))
	}
}

// watching waits until the client that rec records has set n watches on nodes.
func watching(w *trial.World, rec *zktest.Recording, n int) {
	w.Helper()
	w.Must(rec.Await(w.Ctx, "watches", func(zktest.Traced) bool {
		return len(watches(rec)) >= n
	}))
}

func watches(rec *zktest.Recording) []zktest.Traced {
	return slices.DeleteFunc(rec.All(), func(e zktest.Traced) bool { return !e.Watch })
}
