package page_test

import (
	"context"
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/barrier"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
	"github.com/zkd-project/zkd/recipes/queue"
)

// holder is what the caller of a recipe holds.
type holder interface {
	Context() context.Context
	Release(ctx context.Context) error
}

// holders acquire something with a context.
var holders = map[string]func(w *trial.World, ctx context.Context) (holder, error){
	"mutex": func(w *trial.World, ctx context.Context) (holder, error) {
		m, err := lock.NewMutex(w.C, "/mutex", lock.Options{})
		w.Must(err)
		return m.Lock(ctx)
	},
	"mutex that is free": func(w *trial.World, ctx context.Context) (holder, error) {
		m, err := lock.NewMutex(w.C, "/mutex", lock.Options{})
		w.Must(err)
		h, _, err := m.TryLock(ctx)
		return h, err
	},
	"reader": func(w *trial.World, ctx context.Context) (holder, error) {
		l, err := lock.NewRWMutex(w.C, "/rw", lock.RWOptions{})
		w.Must(err)
		return l.RLock(ctx)
	},
	"writer": func(w *trial.World, ctx context.Context) (holder, error) {
		l, err := lock.NewRWMutex(w.C, "/rw", lock.RWOptions{})
		w.Must(err)
		return l.Lock(ctx)
	},
	"priority": func(w *trial.World, ctx context.Context) (holder, error) {
		l, err := lock.NewPriority(w.C, "/priority", lock.RWOptions{})
		w.Must(err)
		return l.Lock(ctx, 3)
	},
	"several locks": func(w *trial.World, ctx context.Context) (holder, error) {
		a, err := lock.NewMutex(w.C, "/a", lock.Options{})
		w.Must(err)
		b, err := lock.NewMutex(w.C, "/b", lock.Options{})
		w.Must(err)
		m, err := lock.NewMulti(lock.Of(a.Path(), a.Lock), lock.Of(b.Path(), b.Lock))
		w.Must(err)
		return m.Lock(ctx)
	},
	"semaphore": func(w *trial.World, ctx context.Context) (holder, error) {
		s, err := lock.NewSemaphore(w.C, "/semaphore", 5, hold.Options{})
		w.Must(err)
		return s.Acquire(ctx, 2)
	},
	"counted semaphore": func(w *trial.World, ctx context.Context) (holder, error) {
		_, err := w.Look.Create(w.Ctx, "/count", []byte{0, 0, 0, 2}, client.CreateOptions{})
		w.Must(err)
		s, err := lock.NewCountedSemaphore(w.C, "/counted", "/count", hold.Options{})
		w.Must(err)
		return s.Acquire(ctx, 1)
	},
	"latch": func(w *trial.World, ctx context.Context) (holder, error) {
		l, err := election.NewLatch(w.C, "/latch", election.Options{})
		w.Must(err)
		w.Must(l.Start())
		w.Cleanup(func() { w.Must(l.Close(context.Background())) })
		return l.Await(ctx)
	},
	"latch, followed": func(w *trial.World, ctx context.Context) (holder, error) {
		l, err := election.NewLatch(w.C, "/latch", election.Options{})
		w.Must(err)
		w.Must(l.Start())
		w.Cleanup(func() { w.Must(l.Close(context.Background())) })
		for status, err := range l.Follow(ctx) {
			if status.State == election.Leading || err != nil {
				return status.Leadership, err
			}
		}
		return nil, errors.New("not elected")
	},
	"double barrier": func(w *trial.World, ctx context.Context) (holder, error) {
		b, err := barrier.NewDouble(w.C, "/double", 1, barrier.Options{})
		w.Must(err)
		return b.Enter(ctx)
	},
	"lease of an item": func(w *trial.World, ctx context.Context) (holder, error) {
		q := leased(w)
		return q.Take(ctx)
	},
	"lease of an item, polled": func(w *trial.World, ctx context.Context) (holder, error) {
		q := leased(w)
		l, _, err := q.Poll(ctx)
		return l, err
	},
}

// leased is a queue with an item.
func leased(w *trial.World) *queue.Leased {
	q, err := queue.NewLeased(w.C, "/queue", queue.Options{})
	w.Must(err)
	w.Must(q.Offer(w.Ctx, []byte("item")))
	w.Cleanup(func() { w.Must(q.Close(context.Background())) })
	return q
}

var errStopped = errors.New("the program is asked to stop")

// The work under what is held ends when the context ends with which it was acquired, as a
// program's that gets SIGTERM. It can be released then.
func TestHeldFollowsItsContext(t *testing.T) {
	for name, acquire := range holders {
		t.Run(name, func(t *testing.T) {
			w := trial.New(t)
			ctx, stop := context.WithCancelCause(w.Ctx)
			defer stop(nil)
			h, err := acquire(w, ctx)
			w.Must(err)
			w.Must(h.Context().Err())
			stop(errStopped)
			<-h.Context().Done()
			if cause := context.Cause(h.Context()); cause != errStopped {
				t.Errorf("cause %v", cause)
			}
			if _, waits := h.(*barrier.Inside); waits { // for the others
				ctx = w.Ctx
			}
			w.Must(h.Release(ctx)) // it was held until now
		})
	}
}

// With WaitOnly the end of the wait ends nothing, and the other context ends the work.
func TestWaitOnly(t *testing.T) {
	for name, acquire := range holders {
		t.Run(name, func(t *testing.T) {
			w := trial.New(t)
			life, stop := context.WithCancelCause(w.Ctx)
			defer stop(nil)
			wait, cancel := context.WithCancel(life)
			h, err := acquire(w, hold.WaitOnly(wait, life))
			w.Must(err)
			cancel()
			w.Must(h.Context().Err())
			stop(errStopped)
			<-h.Context().Done()
			if cause := context.Cause(h.Context()); cause != errStopped { // not that of wait
				t.Errorf("cause %v", cause)
			}
			w.Must(h.Release(w.Ctx))
		})
	}
}

// Each Held of one lock may outlive the other from whose context it was acquired, and follows
// the same context as that.
func TestNestedHeld(t *testing.T) {
	for name, acquire := range map[string]func(w *trial.World, ctx context.Context) (outer, inner *hold.Held){
		"reentrant": func(w *trial.World, ctx context.Context) (outer, inner *hold.Held) {
			m, err := lock.NewMutex(w.C, "/mutex", lock.Options{Reentrant: true})
			w.Must(err)
			outer, err = m.Lock(ctx)
			w.Must(err)
			inner, err = m.Lock(outer.Context())
			w.Must(err)
			return outer, inner
		},
		"reader beside a writer": func(w *trial.World, ctx context.Context) (outer, inner *hold.Held) {
			l, err := lock.NewRWMutex(w.C, "/rw", lock.RWOptions{})
			w.Must(err)
			outer, err = l.Lock(ctx)
			w.Must(err)
			inner, err = l.RLock(outer.Context())
			w.Must(err)
			return outer, inner
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := trial.New(t)
			ctx, stop := context.WithCancelCause(w.Ctx)
			defer stop(nil)
			outer, inner := acquire(w, ctx)
			w.Must(outer.Release(w.Ctx))
			w.Must(inner.Err())
			stop(errStopped)
			<-inner.Context().Done()
			if cause := context.Cause(inner.Context()); cause != errStopped {
				t.Errorf("cause %v", cause)
			}
			w.Must(inner.Release(w.Ctx))
		})
	}
}

// A leadership that is awaited again and again with one context is the same one.
func TestAwaitedAgain(t *testing.T) {
	w := trial.New(t)
	l, err := election.NewLatch(w.C, "/latch", election.Options{})
	w.Must(err)
	w.Must(l.Start())
	defer func() { w.Must(l.Close(context.Background())) }()
	first, err := l.Await(w.Ctx)
	w.Must(err)
	if again, err := l.Await(w.Ctx); again != first || err != nil {
		t.Errorf("%p after %p, %v", again, first, err)
	}
}
