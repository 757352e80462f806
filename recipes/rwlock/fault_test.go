package rwlock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/rwlock"
)

// every runs fn under each fault, with each kind of lock.
func every(t *testing.T, fn func(w *trial.World, lock func(c *client.Client, o rwlock.Options) locker)) {
	for name, make := range lockers {
		t.Run(name, func(t *testing.T) {
			trial.Every(t, false, func(w *trial.World) {
				fn(w, func(c *client.Client, o rwlock.Options) locker {
					l, err := make(c, "/lock", o)
					w.Must(err)
					return l
				})
				w.AwaitChildren("/lock", 0)
			})
		})
	}
}

// exclusive fails if somebody else can have the lock, who is excluded by h, and h be used
// nevertheless.
func exclusive(w *trial.World, l locker, h *rwlock.Held) {
	w.Helper()
	other, ok, err := l.try(w.Ctx, rwlock.Write, 9)
	w.Must(err)
	if ok {
		w.Superseded(h, other)
		w.Must(other.Unlock(w.Ctx))
	}
}

// A27: the creates are protected.
func TestEveryFaultOfAFreeLock(t *testing.T) {
	for _, kind := range []rwlock.Kind{rwlock.Read, rwlock.Write} {
		t.Run(kind.String(), func(t *testing.T) {
			every(t, func(w *trial.World, lock func(*client.Client, rwlock.Options) locker) {
				h, err := lock(w.C, rwlock.Options{}).take(w.Ctx, kind, 0)
				if err != nil {
					w.Explained("lock", err)
					return
				}
				exclusive(w, lock(w.Look, rwlock.Options{}), h)
				w.GiveUp("unlock", h.Unlock)
			})
		})
	}
}

func TestEveryFaultOfATry(t *testing.T) {
	every(t, func(w *trial.World, lock func(*client.Client, rwlock.Options) locker) {
		l := lock(w.C, rwlock.Options{})
		other, err := lock(w.Look, rwlock.Options{}).take(w.Ctx, rwlock.Read, 0)
		w.Must(err)
		h, ok, err := l.try(w.Ctx, rwlock.Write, 0)
		switch {
		case err != nil:
			w.Explained("try lock", err)
		case ok:
			w.Errorf("%s: a lock that is taken was had", w.Fault)
			w.GiveUp("unlock", h.Unlock)
		}
		w.Must(other.Err())
		unlock(w, other)
		w.AwaitChildren("/lock", 0)
		h, ok, err = l.try(w.Ctx, rwlock.Write, 0)
		switch {
		case err != nil:
			w.Explained("try lock", err)
		case !ok:
			w.Errorf("%s: a lock that is free was not had", w.Fault)
		default:
			exclusive(w, lock(w.Look, rwlock.Options{}), h)
			w.GiveUp("unlock", h.Unlock)
		}
	})
}

// waiting begins to ask for the lock, and returns when it watches somebody else's place,
// or is over.
func waiting(w *trial.World, ctx context.Context, l locker, kind rwlock.Kind) *wanted {
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

func TestEveryFaultOfAWait(t *testing.T) {
	for _, kind := range []rwlock.Kind{rwlock.Read, rwlock.Write} {
		t.Run(kind.String(), func(t *testing.T) {
			every(t, func(w *trial.World, lock func(*client.Client, rwlock.Options) locker) {
				first, err := lock(w.Look, rwlock.Options{}).take(w.Ctx, rwlock.Write, 0)
				w.Must(err)
				a := waiting(w, w.Ctx, lock(w.C, rwlock.Options{}), kind)
				unlock(w, first)
				<-a.done
				if a.err != nil {
					w.Explained("lock", a.err)
					return
				}
				if a.held.Token() <= first.Token() {
					w.Errorf("%s: token %v after %v", w.Fault, a.held.Token(), first.Token())
				}
				exclusive(w, lock(w.Look, rwlock.Options{}), a.held)
				w.GiveUp("unlock", a.held.Unlock)
			})
		})
	}
}

// One gives up waiting: it leaves nothing, and the holder is not disturbed.
func TestEveryFaultOfAWaitGivenUp(t *testing.T) {
	gaveUp := errors.New("gave up")
	every(t, func(w *trial.World, lock func(*client.Client, rwlock.Options) locker) {
		first, err := lock(w.Look, rwlock.Options{}).take(w.Ctx, rwlock.Read, 0)
		w.Must(err)
		there := len(w.Children("/lock"))
		ctx, cancel := context.WithCancelCause(w.Ctx)
		a := waiting(w, ctx, lock(w.C, rwlock.Options{}), rwlock.Write)
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

// The read lock that a writer gets is held as long as it says so, also if the write lock
// is unlocked before.
func TestEveryFaultOfADowngrade(t *testing.T) {
	every(t, func(w *trial.World, lock func(*client.Client, rwlock.Options) locker) {
		l := lock(w.C, rwlock.Options{})
		h, err := l.take(w.Ctx, rwlock.Write, 0)
		if err != nil {
			w.Explained("lock", err)
			return
		}
		read, err := l.take(h.Context(), rwlock.Read, 0)
		if err != nil {
			w.Explained("read lock", err)
			w.GiveUp("unlock", h.Unlock)
			return
		}
		w.GiveUp("unlock", h.Unlock)
		exclusive(w, lock(w.Look, rwlock.Options{}), read)
		w.GiveUp("unlock", read.Unlock)
	})
}

// The faults befall who revokes.
func TestEveryFaultOfARevoke(t *testing.T) {
	for name, onRevoke := range map[string]func(*rwlock.Held) bool{
		"with consent": func(*rwlock.Held) bool { return true },
		"refused":      func(*rwlock.Held) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			every(t, func(w *trial.World, lock func(*client.Client, rwlock.Options) locker) {
				h, err := lock(w.Look, rwlock.Options{OnRevoke: onRevoke}).take(w.Ctx, rwlock.Write, 0)
				w.Must(err)
				revoker := lock(w.C, rwlock.Options{})
				all, err := revoker.Contenders(w.Ctx)
				if err == nil && len(all) == 1 {
					var out rwlock.Outcome
					out, err = revoker.Revoke(w.Ctx, all[0], rwlock.NoForce)
					want := rwlock.Refused
					if onRevoke(nil) {
						want = rwlock.Released
					}
					if err == nil && out != want {
						w.Errorf("%s: the outcome is %v, want %v", w.Fault, out, want)
					}
					if err == nil && want == rwlock.Released {
						<-h.Context().Done()
					}
				}
				if err != nil {
					w.Explained("revoke", err)
				}
				if err := h.Unlock(w.Ctx); err != nil && !errors.Is(err, recipes.ErrNotHeld) {
					w.Errorf("%s: unlock = %v", w.Fault, err)
				}
			})
		})
	}
}

// The faults befall who is asked: it answers, or its lock is lost.
func TestEveryFaultOfAnAnswer(t *testing.T) {
	every(t, func(w *trial.World, lock func(*client.Client, rwlock.Options) locker) {
		refusals := 0
		h, err := lock(w.C, rwlock.Options{OnRevoke: func(*rwlock.Held) bool {
			refusals++
			return refusals > 1
		}}).take(w.Ctx, rwlock.Write, 0)
		if err != nil {
			w.Explained("lock", err)
			return
		}
		revoker := lock(w.Look, rwlock.Options{})
		for _, want := range []rwlock.Outcome{rwlock.Refused, rwlock.Released} {
			all, err := revoker.Contenders(w.Ctx)
			w.Must(err)
			if len(all) == 0 {
				break
			}
			out, err := revoker.Revoke(w.Ctx, all[0], rwlock.NoForce)
			if out != want && (out != rwlock.Released || !w.Expires) || err != nil {
				w.Errorf("%s: revoke = %v, %v, want %v", w.Fault, out, err, want)
			}
		}
		select {
		case <-h.Context().Done():
		case <-w.Ctx.Done():
			w.Errorf("%s: the holder that has consented holds on", w.Fault)
		}
		if err := h.Unlock(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
			w.Explained("unlock", err)
		}
	})
}

// The faults befall who forces: the node is gone, and it is known how.
func TestEveryFaultOfAForce(t *testing.T) {
	every(t, func(w *trial.World, lock func(*client.Client, rwlock.Options) locker) {
		h, err := lock(w.Look, rwlock.Options{}).take(w.Ctx, rwlock.Write, 0)
		w.Must(err)
		who := only(w, lock(w.Look, rwlock.Options{}))
		out, err := lock(w.C, rwlock.Options{}).Revoke(w.Ctx, who, 1)
		switch {
		case err == nil && out == rwlock.Forced:
			<-h.Context().Done()
			if err := h.Unlock(w.Ctx); !errors.Is(err, recipes.ErrLost) {
				w.Errorf("%s: unlock of what was taken away = %v", w.Fault, err)
			}
		case err == nil:
			w.Errorf("%s: the outcome is %v", w.Fault, out)
		default:
			w.Explained("revoke", err)
			_ = h.Unlock(w.Ctx) // lost or not
		}
	})
}
