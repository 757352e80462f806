package lock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

// locker is what both kinds of lock can do, whatever the priority.
type locker interface {
	take(ctx context.Context, kind lock.Kind, priority int32) (*hold.Held, error)
	try(ctx context.Context, kind lock.Kind, priority int32) (*hold.Held, bool, error)
	Contenders(ctx context.Context) ([]hold.Contender, error)
	Revoke(ctx context.Context, who hold.Contender, grace time.Duration) (lock.Outcome, error)
	Break(ctx context.Context, who hold.Contender) (hold.Contender, error)
	Beside(ctx context.Context, h *hold.Held) (*hold.Held, error)
}

type plain struct{ *lock.RWMutex }

func (l plain) take(ctx context.Context, kind lock.Kind, _ int32) (*hold.Held, error) {
	if kind == lock.Write {
		return l.Lock(ctx)
	}
	return l.RLock(ctx)
}

func (l plain) try(ctx context.Context, kind lock.Kind, _ int32) (*hold.Held, bool, error) {
	if kind == lock.Write {
		return l.TryLock(ctx)
	}
	return l.TryRLock(ctx)
}

type priority struct{ *lock.Priority }

func (l priority) take(ctx context.Context, kind lock.Kind, p int32) (*hold.Held, error) {
	if kind == lock.Write {
		return l.Lock(ctx, p)
	}
	return l.RLock(ctx, p)
}

func (l priority) try(ctx context.Context, kind lock.Kind, p int32) (*hold.Held, bool, error) {
	if kind == lock.Write {
		return l.TryLock(ctx, p)
	}
	return l.TryRLock(ctx, p)
}

// lockers makes each kind of lock.
var lockers = map[string]func(c *client.Client, path string, o lock.RWOptions) (locker, error){
	"plain": func(c *client.Client, path string, o lock.RWOptions) (locker, error) {
		l, err := lock.NewRWMutex(c, path, o)
		return plain{l}, err
	},
	"priority": func(c *client.Client, path string, o lock.RWOptions) (locker, error) {
		l, err := lock.NewPriority(c, path, o)
		return priority{l}, err
	},
}

// both runs a test with each kind of lock.
func both(t *testing.T, fn func(w *trial.World, newLock func(c *client.Client, o lock.RWOptions) locker)) {
	for name, make := range lockers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := trial.New(t)
			fn(w, func(c *client.Client, o lock.RWOptions) locker {
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
	held *hold.Held
	err  error
}

// want begins to ask for a lock, and returns once its place is there.
func want(w *trial.World, l locker, kind lock.Kind, p int32) *wanted {
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
func (a *wanted) get() *hold.Held {
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

// contender returns the one with that node.
func contender(w *trial.World, l locker, path string) hold.Contender {
	w.Helper()
	all, err := l.Contenders(w.Ctx)
	w.Must(err)
	i := slices.IndexFunc(all, func(who hold.Contender) bool { return who.Path == path })
	if i < 0 {
		w.Fatalf("%s is not among %+v", path, all)
	}
	return all[i]
}

// unlock releases locks without an error.
func unlock(w *trial.World, held ...*hold.Held) {
	w.Helper()
	for _, h := range held {
		w.Must(h.Release(w.Ctx))
	}
}

// watching waits until the client that rec records has set n watches on nodes.
func watching(w *trial.World, rec *zktest.Recording, n int) {
	w.Helper()
	w.Must(rec.Await(w.Ctx, "watches", func(zktest.Traced) bool {
		return len(rwWatches(rec)) >= n
	}))
}

func rwWatches(rec *zktest.Recording) []zktest.Traced {
	return slices.DeleteFunc(rec.All(), func(e zktest.Traced) bool { return !e.Watch })
}
