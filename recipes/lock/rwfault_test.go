package lock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

// every runs fn under each fault, with each kind of lock.
func every(t *testing.T, fn func(w *trial.World, newLock func(c *client.Client, o lock.RWOptions) locker)) {
	for name, make := range lockers {
		t.Run(name, func(t *testing.T) {
			trial.Every(t, false, func(w *trial.World) {
				fn(w, func(c *client.Client, o lock.RWOptions) locker {
					l, err := make(c, "/lock", o)
					w.Must(err)
					return l
				})
				w.AwaitChildren("/lock", 0)
			})
		})
	}
}

// exclusive fails if another client that h excludes can acquire the lock while h can still be
// used.
func exclusive(w *trial.World, l locker, h *hold.Held) {
	w.Helper()
	other, ok, err := l.try(w.Ctx, lock.Write, 9)
	w.Must(err)
	if ok {
		w.Superseded(h, other)
		w.Must(other.Release(w.Ctx))
	}
}

// The creates are protected.
func TestRWEveryFaultOfAFreeLock(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Read, lock.Write} {
		t.Run(kind.String(), func(t *testing.T) {
			every(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
				h, err := newLock(w.C, lock.RWOptions{}).take(w.Ctx, kind, 0)
				if err != nil {
					w.Explained("lock", err)
					return
				}
				exclusive(w, newLock(w.Look, lock.RWOptions{}), h)
				w.GiveUp("release", h.Release)
			})
		})
	}
}

func TestEveryFaultOfATry(t *testing.T) {
	every(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		l := newLock(w.C, lock.RWOptions{})
		other, err := newLock(w.Look, lock.RWOptions{}).take(w.Ctx, lock.Read, 0)
		w.Must(err)
		h, ok, err := l.try(w.Ctx, lock.Write, 0)
		switch {
		case err != nil:
			w.Explained("try lock", err)
		case ok:
			w.Errorf("%s: a lock that is taken was had", w.Fault)
			w.GiveUp("release", h.Release)
		}
		w.Must(other.Err())
		unlock(w, other)
		w.AwaitChildren("/lock", 0)
		h, ok, err = l.try(w.Ctx, lock.Write, 0)
		switch {
		case err != nil:
			w.Explained("try lock", err)
		case !ok:
			w.Errorf("%s: a lock that is free was not had", w.Fault)
		default:
			exclusive(w, newLock(w.Look, lock.RWOptions{}), h)
			w.GiveUp("release", h.Release)
		}
	})
}

// waiting begins to wait for the lock, and returns when it watches another place, or has
// finished.
func rwWaiting(w *trial.World, ctx context.Context, l locker, kind lock.Kind) *wanted {
	rec := w.Record()
	a := &wanted{World: w, done: make(chan struct{})}
	until, over := context.WithCancel(w.Ctx)
	go func() {
		defer close(a.done)
		defer over()
		a.held, a.err = l.take(ctx, kind, 0)
	}()
	_ = rec.Await(until, "wait", func(e zktest.Traced) bool { return e.Watch })
	return a
}

func TestRWEveryFaultOfAWait(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Read, lock.Write} {
		t.Run(kind.String(), func(t *testing.T) {
			every(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
				first, err := newLock(w.Look, lock.RWOptions{}).take(w.Ctx, lock.Write, 0)
				w.Must(err)
				a := rwWaiting(w, w.Ctx, newLock(w.C, lock.RWOptions{}), kind)
				unlock(w, first)
				<-a.done
				if a.err != nil {
					w.Explained("lock", a.err)
					return
				}
				if a.held.Token() <= first.Token() {
					w.Errorf("%s: token %v after %v", w.Fault, a.held.Token(), first.Token())
				}
				exclusive(w, newLock(w.Look, lock.RWOptions{}), a.held)
				w.GiveUp("release", a.held.Release)
			})
		})
	}
}

// One gives up waiting: it leaves nothing, and the holder is not disturbed.
func TestRWEveryFaultOfAWaitGivenUp(t *testing.T) {
	gaveUp := errors.New("gave up")
	every(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		first, err := newLock(w.Look, lock.RWOptions{}).take(w.Ctx, lock.Read, 0)
		w.Must(err)
		there := len(w.Children("/lock"))
		ctx, cancel := context.WithCancelCause(w.Ctx)
		a := rwWaiting(w, ctx, newLock(w.C, lock.RWOptions{}), lock.Write)
		cancel(gaveUp)
		<-a.done
		if !errors.Is(a.err, gaveUp) {
			w.Explained("lock", a.err)
		}
		w.AwaitChildren("/lock", there)
		w.Must(first.Err())
		unlock(w, first)
	})
}

// The read lock of a writer is held as long as it says so, even if the write lock is released
// before.
func TestEveryFaultOfADowngrade(t *testing.T) {
	every(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		l := newLock(w.C, lock.RWOptions{})
		h, err := l.take(w.Ctx, lock.Write, 0)
		if err != nil {
			w.Explained("lock", err)
			return
		}
		read, err := l.take(h.Context(), lock.Read, 0)
		if err != nil {
			w.Explained("read lock", err)
			w.GiveUp("release", h.Release)
			return
		}
		w.GiveUp("release", h.Release)
		exclusive(w, newLock(w.Look, lock.RWOptions{}), read)
		w.GiveUp("release", read.Release)
	})
}

// The faults hit the client that revokes.
func TestEveryFaultOfARevoke(t *testing.T) {
	for name, onRevoke := range map[string]func(*hold.Held, lock.Kind) bool{
		"with consent": func(*hold.Held, lock.Kind) bool { return true },
		"refused":      func(*hold.Held, lock.Kind) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			every(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
				h, err := newLock(w.Look, lock.RWOptions{OnRevoke: onRevoke}).take(w.Ctx, lock.Write, 0)
				w.Must(err)
				revoker := newLock(w.C, lock.RWOptions{})
				all, err := revoker.Contenders(w.Ctx)
				if err == nil && len(all) == 1 {
					var out lock.Outcome
					out, err = revoker.Revoke(w.Ctx, all[0], lock.NoForce)
					want := lock.Refused
					if onRevoke(nil, 0) {
						want = lock.Released
					}
					if err == nil && out != want {
						w.Errorf("%s: the outcome is %v, want %v", w.Fault, out, want)
					}
					if err == nil && want == lock.Released {
						<-h.Context().Done()
					}
				}
				if err != nil {
					w.Explained("revoke", err)
				}
				if err := h.Release(w.Ctx); err != nil && !errors.Is(err, recipes.ErrNotHeld) {
					w.Errorf("%s: release = %v", w.Fault, err)
				}
			})
		})
	}
}

// The faults hit the client that is asked: it answers, or its lock is lost.
func TestEveryFaultOfAnAnswer(t *testing.T) {
	every(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		refusals := 0
		h, err := newLock(w.C, lock.RWOptions{OnRevoke: func(*hold.Held, lock.Kind) bool {
			refusals++
			return refusals > 1
		}}).take(w.Ctx, lock.Write, 0)
		if err != nil {
			w.Explained("lock", err)
			return
		}
		revoker := newLock(w.Look, lock.RWOptions{})
		for _, want := range []lock.Outcome{lock.Refused, lock.Released} {
			all, err := revoker.Contenders(w.Ctx)
			w.Must(err)
			if len(all) == 0 {
				break
			}
			out, err := revoker.Revoke(w.Ctx, all[0], lock.NoForce)
			if out != want && (out != lock.Released || !w.Expires) || err != nil {
				w.Errorf("%s: revoke = %v, %v, want %v", w.Fault, out, err, want)
			}
		}
		select {
		case <-h.Context().Done():
		case <-w.Ctx.Done():
			w.Errorf("%s: the holder that has consented holds on", w.Fault)
		}
		if err := h.Release(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
			w.Explained("release", err)
		}
	})
}

// The faults hit the client that forces: the node is deleted, and the outcome is right.
func TestEveryFaultOfAForce(t *testing.T) {
	every(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		h, err := newLock(w.Look, lock.RWOptions{}).take(w.Ctx, lock.Write, 0)
		w.Must(err)
		who := only(w, newLock(w.Look, lock.RWOptions{}))
		out, err := newLock(w.C, lock.RWOptions{}).Revoke(w.Ctx, who, 1)
		switch {
		case err == nil && out == lock.Forced:
			<-h.Context().Done()
			if err := h.Release(w.Ctx); !errors.Is(err, recipes.ErrLost) {
				w.Errorf("%s: release of what was taken away = %v", w.Fault, err)
			}
		case err == nil:
			w.Errorf("%s: the outcome is %v", w.Fault, out)
		default:
			w.Explained("revoke", err)
			_ = h.Release(w.Ctx) // lost or not
		}
	})
}
