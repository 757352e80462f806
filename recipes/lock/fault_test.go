package lock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

// explained fails unless err is what the run's fault explains: a broken connection is
// hidden, and the end of the session is told.
func explained(w *trial.World, what string, err error) {
	w.Helper()
	if !w.Expires || !errors.Is(err, recipes.ErrLost) {
		w.Errorf("%s: %s = %v", w.Fault, what, err)
	}
}

// write makes a guarded change, and reports whether it was done for sure.
func write(w *trial.World, h *lock.Held) bool {
	_, err := w.C.Multi(w.Ctx, h.Guard(client.CreateOp("/w-", nil, client.PersistentSequential, nil))...)
	return err == nil
}

// alone fails if somebody else can have the lock and h be used nevertheless.
func alone(w *trial.World, h *lock.Held) {
	w.Helper()
	other, ok, err := mutex(w, w.Look, lock.Options{}).TryLock(w.Ctx)
	w.Must(err)
	if !ok {
		return
	}
	if !w.Expires {
		w.Errorf("%s: two have the lock", w.Fault)
	}
	if write(w, h) {
		w.Errorf("%s: the guard let a write through of one who has lost the lock", w.Fault)
	}
	if other.Token() <= h.Token() {
		w.Errorf("%s: token %v of the later holder, %v of the one before", w.Fault, other.Token(), h.Token())
	}
	w.Must(other.Unlock(w.Ctx))
}

// unlock gives the lock up, which fails only if it was lost.
func unlock(w *trial.World, h *lock.Held) {
	w.Helper()
	if err := h.Unlock(w.Ctx); err != nil {
		explained(w, "unlock", err)
	}
	mustBe(w, h.Unlock(w.Ctx), recipes.ErrNotHeld)
}

func TestEveryFaultOfAFreeLock(t *testing.T) {
	for _, layout := range []lock.Layout{lock.Curator, lock.Kazoo, lock.WriteLock} {
		t.Run(layout.String(), func(t *testing.T) {
			trial.Every(t, false, func(w *trial.World) {
				h, err := mutex(w, w.C, lock.Options{Layout: layout}).Lock(w.Ctx)
				if err != nil {
					explained(w, "lock", err)
				} else {
					alone(w, h)
					unlock(w, h)
				}
				w.AwaitChildren("/l", 0)
			})
		})
	}
}

// The session is renewed: the lock of the one before is lost, and can be had again.
func TestEveryFaultWithRenewal(t *testing.T) {
	trial.Every(t, true, func(w *trial.World) {
		m := mutex(w, w.C, lock.Options{})
		for range 2 {
			h, err := m.Lock(w.Ctx)
			for err != nil {
				explained(w, "lock", err)
				h, err = m.Lock(w.Ctx)
			}
			alone(w, h)
			unlock(w, h)
		}
		w.AwaitChildren("/l", 0)
	})
}

// waits returns when C watches somebody else's place, or when its Lock has returned.
func waits(w *trial.World, rec *zktest.Recording, out <-chan outcome) (early *outcome) {
	ctx, cancel := context.WithCancel(w.Ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		_ = rec.Await(ctx, "wait", watches)
	}()
	select {
	case got := <-out:
		early = &got
	case <-watching:
	}
	cancel()
	<-watching
	return early
}

// One waits while another holds the lock: A18, A20.
func TestEveryFaultOfAWait(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		first := held(w, w.Look, lock.Options{})
		rec := w.Record()
		out := locking(w.Ctx, mutex(w, w.C, lock.Options{}))
		early := waits(w, rec, out)
		w.Must(first.Unlock(w.Ctx))
		if early == nil {
			got := <-out
			early = &got
		}
		if early.err != nil {
			explained(w, "lock", early.err)
		} else {
			alone(w, early.held)
			unlock(w, early.held)
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

// One gives up waiting: it leaves nothing, and the holder is not disturbed: A21.
func TestEveryFaultOfAWaitGivenUp(t *testing.T) {
	gaveUp := errors.New("gave up")
	trial.Every(t, false, func(w *trial.World) {
		first := held(w, w.Look, lock.Options{})
		rec := w.Record()
		ctx, giveUp := context.WithCancelCause(w.Ctx)
		out := locking(ctx, mutex(w, w.C, lock.Options{}))
		early := waits(w, rec, out)
		giveUp(gaveUp)
		if early == nil {
			got := <-out
			early = &got
		}
		if !errors.Is(early.err, gaveUp) {
			explained(w, "lock", early.err)
		}
		w.AwaitChildren("/l", 1)
		w.Must(first.Err())
		w.Must(first.Unlock(w.Ctx))
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
			explained(w, "try lock", err)
		}
		w.AwaitChildren("/l", 1)
		w.Must(first.Unlock(w.Ctx))
		h, ok, err := m.TryLock(w.Ctx)
		switch {
		case err != nil:
			explained(w, "try lock", err)
		case !ok:
			w.Errorf("%s: the lock is free, and was not had", w.Fault)
		default:
			alone(w, h)
			unlock(w, h)
		}
		w.AwaitChildren("/l", 0)
	})
}

// The executor unlocks whatever happens, and says when the lock was lost: E10, E11.
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
			return 42, errors.Join(h.Err(), h.Unlock(ctx))
		})
		if err != nil {
			explained(w, "with", err)
		} else if calls != 1 || got != 42 {
			w.Errorf("%s: %d calls returned %d", w.Fault, calls, got)
		}
		w.AwaitChildren("/l", 0)
	})
}

func TestEveryFaultOfAMulti(t *testing.T) {
	trial.Every(t, false, func(w *trial.World) {
		b, err := lock.New(w.C, "/b", lock.Options{})
		w.Must(err)
		l := mutex(w, w.C, lock.Options{})
		both, err := lock.NewMulti(lock.Of(l.Path(), l.Lock), lock.Of(b.Path(), b.Lock))
		w.Must(err)
		h, err := both.Lock(w.Ctx)
		if err != nil {
			explained(w, "lock", err)
		} else if err := h.Unlock(w.Ctx); err != nil {
			explained(w, "unlock", err)
		}
		w.AwaitChildren("/l", 0)
		w.AwaitChildren("/b", 0)
	})
}
