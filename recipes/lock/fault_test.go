package lock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

// alone fails if another client can acquire the lock while h can still be used.
func alone(w *trial.World, h *hold.Held) {
	w.Helper()
	other, ok, err := mutex(w, w.Look, lock.Options{}).TryLock(w.Ctx)
	w.Must(err)
	if ok {
		w.Superseded(h, other)
		w.Must(other.Release(w.Ctx))
	}
}

func TestEveryFaultOfAFreeLock(t *testing.T) {
	for _, layout := range []lock.Layout{lock.Curator, lock.Kazoo, lock.WriteLock} {
		t.Run(layout.String(), func(t *testing.T) {
			trial.Every(t, false, func(w *trial.World) {
				h, err := mutex(w, w.C, lock.Options{Layout: layout}).Lock(w.Ctx)
				if err != nil {
					w.Explained("lock", err)
				} else {
					alone(w, h)
					w.GiveUp("release", h.Release)
				}
				w.AwaitChildren("/l", 0)
			})
		})
	}
}

// The session is renewed: the lock of the one before is lost, and can be acquired again.
func TestEveryFaultWithRenewal(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		m := mutex(w, w.C, lock.Options{})
		for range 2 {
			h, err := m.Lock(w.Ctx)
			for err != nil {
				w.Explained("lock", err)
				h, err = m.Lock(w.Ctx)
			}
			alone(w, h)
			w.GiveUp("release", h.Release)
		}
		w.AwaitChildren("/l", 0)
	})
}

// waiting is locking that returns when C watches another place, or has finished.
func waiting(w *trial.World, ctx context.Context, m *lock.Mutex) <-chan outcome {
	rec := w.Record()
	until, over := context.WithCancel(w.Ctx)
	out := make(chan outcome, 1)
	go func() {
		defer over()
		h, err := m.Lock(ctx)
		out <- outcome{h, err}
	}()
	_ = rec.Await(until, "wait", watches)
	return out
}

// One waits while another holds the lock.
func TestEveryFaultOfAWait(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		first := held(w, w.Look, lock.Options{})
		out := waiting(w, w.Ctx, mutex(w, w.C, lock.Options{}))
		w.Must(first.Release(w.Ctx))
		got := <-out
		if got.err != nil {
			w.Explained("lock", got.err)
		} else {
			alone(w, got.held)
			w.GiveUp("release", got.held.Release)
		}
		w.AwaitChildren("/l", 0)
	})
}

// One whose context has ended before leaves nothing, either, and says why.
func TestLockWithAContextThatHasEnded(t *testing.T) {
	w := trial.New(t)
	m := mutex(t, w.C, lock.Options{})
	ended := errors.New("ended")
	ctx, end := context.WithCancelCause(w.Ctx)
	end(ended)
	_, err := m.Lock(ctx)
	mustBe(t, err, ended)
	_, _, err = m.TryLock(ctx)
	mustBe(t, err, ended)
	_, err = m.Contenders(ctx)
	mustBe(t, err, ended)
	w.AwaitChildren("/l", 0)
}

// One gives up waiting: it leaves nothing, and the holder is not disturbed.
func TestEveryFaultOfAWaitGivenUp(t *testing.T) {
	gaveUp := errors.New("gave up")
	trial.Every(t, false, func(w *trial.World) {
		first := held(w, w.Look, lock.Options{})
		ctx, giveUp := context.WithCancelCause(w.Ctx)
		out := waiting(w, ctx, mutex(w, w.C, lock.Options{}))
		giveUp(gaveUp)
		if got := <-out; !errors.Is(got.err, gaveUp) {
			w.Explained("lock", got.err)
		}
		w.AwaitChildren("/l", 1)
		w.Must(first.Err())
		w.Must(first.Release(w.Ctx))
		w.AwaitChildren("/l", 0)
	})
}

func TestEveryFaultOfTryLock(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		m := mutex(w, w.C, lock.Options{})
		first := held(w, w.Look, lock.Options{})
		_, ok, err := m.TryLock(w.Ctx)
		if ok {
			w.Errorf("%s: a lock that is taken was had", w.Fault)
		}
		if err != nil {
			w.Explained("try lock", err)
		}
		w.AwaitChildren("/l", 1)
		w.Must(first.Release(w.Ctx))
		h, ok, err := m.TryLock(w.Ctx)
		switch {
		case err != nil:
			w.Explained("try lock", err)
		case !ok:
			w.Errorf("%s: the lock is free, and was not had", w.Fault)
		default:
			alone(w, h)
			w.GiveUp("release", h.Release)
		}
		w.AwaitChildren("/l", 0)
	})
}

// With releases whatever happens, and reports when the lock was lost.
func TestEveryFaultOfWith(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		m := mutex(w, w.C, lock.Options{Reentrant: true})
		calls := 0
		got, err := lock.With(w.Ctx, m, func(ctx context.Context) (int, error) {
			calls++
			h, err := m.Lock(ctx) // the same
			if err != nil {
				return 0, err
			}
			alone(w, h)
			return 42, errors.Join(h.Err(), h.Release(ctx))
		})
		if err != nil {
			w.Explained("with", err)
		} else if calls != 1 || got != 42 {
			w.Errorf("%s: %d calls returned %d", w.Fault, calls, got)
		}
		w.AwaitChildren("/l", 0)
	})
}

func TestEveryFaultOfAMulti(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		b, err := lock.NewMutex(w.C, "/b", lock.Options{})
		w.Must(err)
		l := mutex(w, w.C, lock.Options{})
		both, err := lock.NewMulti(lock.Of(l.Path(), l.Lock), lock.Of(b.Path(), b.Lock))
		w.Must(err)
		h, err := both.Lock(w.Ctx)
		if err != nil {
			w.Explained("lock", err)
		} else if err := h.Release(w.Ctx); err != nil {
			w.Explained("release", err)
		}
		w.AwaitChildren("/l", 0)
		w.AwaitChildren("/b", 0)
	})
}
