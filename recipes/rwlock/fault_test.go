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

// explained fails unless err is what the run's fault explains: a broken connection is
// hidden, and the end of the session is told.
func explained(w *trial.World, what string, err error) {
	w.Helper()
	if !w.Expires || !errors.Is(err, recipes.ErrLost) {
		w.Errorf("%s: %s = %v", w.Fault, what, err)
	}
}

// write makes a guarded write.
func write(w *trial.World, h *rwlock.Held) bool {
	_, err := w.C.Multi(w.Ctx, h.Guard(client.CreateOp("/w-", nil, client.PersistentSequential, nil))...)
	return err == nil
}

// exclusive fails if somebody else can have the lock, who is excluded by h, and h be used
// nevertheless.
func exclusive(w *trial.World, l locker, h *rwlock.Held) {
	w.Helper()
	other, ok, err := l.try(w.Ctx, rwlock.Write, 9)
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

// giveUp unlocks, which fails only if the lock was lost.
func giveUp(w *trial.World, h *rwlock.Held) {
	w.Helper()
	if err := h.Unlock(w.Ctx); err != nil {
		explained(w, "unlock", err)
	}
	if err := h.Unlock(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
		w.Errorf("%s: second unlock = %v", w.Fault, err)
	}
}

// A27: the creates are protected.
func TestEveryFaultOfAFreeLock(t *testing.T) {
	for _, kind := range []rwlock.Kind{rwlock.Read, rwlock.Write} {
		t.Run(kind.String(), func(t *testing.T) {
			every(t, func(w *trial.World, lock func(*client.Client, rwlock.Options) locker) {
				h, err := lock(w.C, rwlock.Options{}).take(w.Ctx, kind, 0)
				if err != nil {
					explained(w, "lock", err)
					return
				}
				exclusive(w, lock(w.Look, rwlock.Options{}), h)
				giveUp(w, h)
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
			explained(w, "try lock", err)
		case ok:
			w.Errorf("%s: a lock that is taken was had", w.Fault)
			giveUp(w, h)
		}
		w.Must(other.Err())
		unlock(w, other)
		w.AwaitChildren("/lock", 0)
		h, ok, err = l.try(w.Ctx, rwlock.Write, 0)
		switch {
		case err != nil:
			explained(w, "try lock", err)
		case !ok:
			w.Errorf("%s: a lock that is free was not had", w.Fault)
		default:
			exclusive(w, lock(w.Look, rwlock.Options{}), h)
			giveUp(w, h)
		}
	})
}

// waiting begins to ask for the lock, and returns when it watches somebody else's place,
// or is over.
func waiting(w *trial.World, ctx context.Context, l locker, kind rwlock.Kind) *wanted {
	rec := w.Record()
	a := &wanted{World: w, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.held, a.err = l.take(ctx, kind, 0)
	}()
	until, cancel := context.WithCancel(w.Ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		_ = rec.Await(until, "wait", func(e zktest.Traced) bool { return e.Watch })
	}()
	select {
	case <-a.done:
	case <-watching:
	}
	cancel()
	<-watching
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
					explained(w, "lock", a.err)
					return
				}
				if a.held.Token() <= first.Token() {
					w.Errorf("%s: token %v after %v", w.Fault, a.held.Token(), first.Token())
				}
				exclusive(w, lock(w.Look, rwlock.Options{}), a.held)
				giveUp(w, a.held)
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
			explained(w, "lock", a.err)
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
			explained(w, "lock", err)
			return
		}
		read, err := l.take(h.Context(), rwlock.Read, 0)
		if err != nil {
			explained(w, "read lock", err)
			giveUp(w, h)
			return
		}
		giveUp(w, h)
		exclusive(w, lock(w.Look, rwlock.Options{}), read)
		giveUp(w, read)
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
					explained(w, "revoke", err)
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
			explained(w, "lock", err)
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
			explained(w, "unlock", err)
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
			explained(w, "revoke", err)
			_ = h.Unlock(w.Ctx) // lost or not
		}
	})
}
