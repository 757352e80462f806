package lock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

// bounded fails if n more leases can be acquired while l can still be used.
func bounded(w *trial.World, l *hold.Held, total, n int) {
	w.Helper()
	other, ok, err := newSemaphore(w, w.Look, total, hold.Options{}).TryAcquire(w.Ctx, n)
	w.Must(err)
	if ok {
		w.Superseded(l, other)
		w.Must(other.Release(w.Ctx))
	}
}

func TestEveryFaultOfFreeLeases(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		l, err := newSemaphore(w, w.C, 2, hold.Options{}).Acquire(w.Ctx, 2)
		if err != nil {
			w.Explained("acquire", err)
		} else {
			bounded(w, l, 2, 1)
			w.GiveUp("release", l.Release)
		}
		empty(w)
	})
}

func TestSemaphoreEveryFaultOfATry(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		first, err := newSemaphore(w, w.Look, 2, hold.Options{}).Acquire(w.Ctx, 1)
		w.Must(err)
		s := newSemaphore(w, w.C, 2, hold.Options{})
		if l, ok, err := s.TryAcquire(w.Ctx, 2); ok {
			w.Errorf("%s: more leases were had than are free", w.Fault)
			w.GiveUp("release", l.Release)
		} else if err != nil {
			w.Explained("try of two", err)
		}
		w.AwaitChildren("/sem/leases", 1)
		l, ok, err := s.TryAcquire(w.Ctx, 1)
		switch {
		case err != nil:
			w.Explained("try of one", err)
		case !ok:
			w.Errorf("%s: a lease is free, but was not had", w.Fault)
		default:
			bounded(w, l, 2, 1)
			w.GiveUp("release", l.Release)
		}
		w.Must(first.Release(w.Ctx))
		empty(w)
	})
}

// waiting begins to acquire a lease, and returns when it watches the leases, or is over.
func semaphoreWaiting(w *trial.World, ctx context.Context, s *lock.Semaphore) *waiter {
	rec := w.Record()
	a := acquire(w, ctx, s, 1)
	until, over := context.WithCancel(w.Ctx)
	go func() {
		defer over()
		<-a.done
	}()
	_ = rec.Await(until, "wait", func(e zktest.Traced) bool { return e.Watch })
	return a
}

// shared makes the node that says how many leases there are.
func shared(w *trial.World, n int32) {
	w.Helper()
	_, err := w.Look.Create(w.Ctx, "/count", lock.EncodeCount(n), client.CreateOptions{})
	w.Must(err)
}

func TestSemaphoreEveryFaultOfAWait(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		shared(w, 1)
		first, err := counted(w, w.Look).Acquire(w.Ctx, 1)
		w.Must(err)
		a := semaphoreWaiting(w, w.Ctx, counted(w, w.C))
		w.Must(first.Release(w.Ctx))
		<-a.done
		if a.err != nil {
			w.Explained("acquire", a.err)
		} else {
			w.Must(w.Look.Delete(w.Ctx, "/count", client.AnyVersion))
			bounded(w, a.lease, 1, 1)
			w.GiveUp("release", a.lease.Release)
		}
		empty(w)
	})
}

// One gives up waiting: it leaves nothing, and the holder is not disturbed.
func TestSemaphoreEveryFaultOfAWaitGivenUp(t *testing.T) {
	gaveUp := errors.New("gave up")
	trial.Every(t, false, func(w *trial.World) {
		first, err := newSemaphore(w, w.Look, 1, hold.Options{}).Acquire(w.Ctx, 1)
		w.Must(err)
		ctx, cancel := context.WithCancelCause(w.Ctx)
		a := semaphoreWaiting(w, ctx, newSemaphore(w, w.C, 1, hold.Options{}))
		cancel(gaveUp)
		<-a.done
		if !errors.Is(a.err, gaveUp) {
			w.Explained("acquire", a.err)
		}
		w.AwaitChildren("/sem/leases", 1)
		w.Must(first.Err())
		w.Must(first.Release(w.Ctx))
		empty(w)
	})
}

// The session is renewed: the leases of the one before are lost, and can be acquired again.
func TestSemaphoreEveryFaultWithRenewal(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		s := newSemaphore(w, w.C, 1, hold.Options{})
		for range 2 {
			l, err := s.Acquire(w.Ctx, 1)
			for err != nil {
				w.Explained("acquire", err)
				l, err = s.Acquire(w.Ctx, 1)
			}
			bounded(w, l, 1, 1)
			w.GiveUp("release", l.Release)
		}
		empty(w)
	})
}
