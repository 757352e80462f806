package lock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

// only returns the one contender there is.
func only(w *trial.World, l locker) hold.Contender {
	w.Helper()
	all, err := l.Contenders(w.Ctx)
	w.Must(err)
	if len(all) != 1 {
		w.Fatalf("contenders are %+v, want one", all)
	}
	return all[0]
}

// records is what Options.Audit was told.
type records struct {
	mu  sync.Mutex
	all []lock.Outcome
}

func (r *records) audit(a lock.Revocation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, a.Outcome)
}

func (r *records) must(w *trial.World, want ...lock.Outcome) {
	w.Helper()
	if !slices.Equal(r.all, want) {
		w.Errorf("audit was told of %v, want %v", r.all, want)
	}
}

func rwMustBe(w *trial.World, what string, got, want lock.Outcome, err error) {
	w.Helper()
	if got != want || err != nil {
		w.Errorf("%s = %v, %v, want %v", what, got, err, want)
	}
}

// The holder is asked, finishes its work, and releases.
func TestRevokeWithConsent(t *testing.T) {
	for _, request := range []lock.Request{lock.AskRelease, lock.CuratorRevoke} {
		both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
			worked := false
			h, err := newLock(w.C, lock.RWOptions{OnRevoke: func(h *hold.Held, _ lock.Kind) bool {
				worked = h.Err() == nil
				return true
			}}).take(w.Ctx, lock.Write, 0)
			w.Must(err)
			var told records
			revoker := newLock(w.Look, lock.RWOptions{Request: request, Audit: told.audit})
			out, err := revoker.Revoke(w.Ctx, only(w, revoker), lock.NoForce)
			rwMustBe(w, "revoke", out, lock.Released, err)
			told.must(w, lock.Released)
			<-h.Context().Done()
			if !worked {
				t.Error("the holder could not work before it consented")
			}
			if err := h.Release(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
				t.Errorf("release of what was given up = %v", err)
			}
			w.AwaitChildren("/lock", 0)
		})
	}
}

// The holder refuses, as often as it is asked. Its data are there again.
func TestRevokeRefused(t *testing.T) {
	both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		h, err := newLock(w.C, lock.RWOptions{Options: hold.Options{Data: []byte("me")}, OnRevoke: func(*hold.Held, lock.Kind) bool { return false }}).take(w.Ctx, lock.Read, 0)
		w.Must(err)
		var told records
		revoker := newLock(w.Look, lock.RWOptions{Audit: told.audit})
		for range 3 {
			out, err := revoker.Revoke(w.Ctx, only(w, revoker), lock.NoForce)
			rwMustBe(w, "revoke", out, lock.Refused, err)
			if who := only(w, revoker); string(who.Data) != "me" || who.Asked || !who.Holds {
				t.Errorf("after the refusal the contender is %+v", who)
			}
		}
		told.must(w, lock.Refused, lock.Refused, lock.Refused)
		w.Must(h.Err())
		unlock(w, h)
	})
}

// Of several clients that ask at the same time each gets its answer.
func TestRevokeBySeveral(t *testing.T) {
	both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		h, err := newLock(w.C, lock.RWOptions{OnRevoke: func(*hold.Held, lock.Kind) bool { return false }}).take(w.Ctx, lock.Read, 0)
		w.Must(err)
		who := only(w, newLock(w.Look, lock.RWOptions{}))
		var asking sync.WaitGroup
		for range 4 {
			revoker := newLock(w.Other(), lock.RWOptions{})
			asking.Go(func() {
				for range 5 {
					out, err := revoker.Revoke(w.Ctx, who, lock.NoForce)
					rwMustBe(w, "revoke", out, lock.Refused, err)
				}
			})
		}
		asking.Wait()
		unlock(w, h)
	})
}

// After the grace period the holder's node is deleted, and no other one, and the holder notices.
func TestRevokeByForce(t *testing.T) {
	refuse := func(*hold.Held, lock.Kind) bool { return false }
	for grace, onRevoke := range map[time.Duration]func(*hold.Held, lock.Kind) bool{1: nil, 20 * time.Millisecond: nil, 30 * time.Millisecond: refuse} {
		both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
			l := newLock(w.C, lock.RWOptions{OnRevoke: onRevoke})
			h, err := l.take(w.Ctx, lock.Read, 0)
			w.Must(err)
			victim := only(w, l)
			other, err := l.take(w.Ctx, lock.Read, 0)
			w.Must(err)
			var told records
			revoker := newLock(w.Look, lock.RWOptions{Audit: told.audit})
			out, err := revoker.Revoke(w.Ctx, victim, grace)
			rwMustBe(w, "revoke", out, lock.Forced, err)
			<-h.Context().Done()
			if err := context.Cause(h.Context()); !errors.Is(err, recipes.ErrLost) {
				t.Errorf("the holder's context ended with %v", err)
			}
			if err := h.Release(w.Ctx); !errors.Is(err, recipes.ErrLost) {
				t.Errorf("release of what was lost = %v", err)
			}
			w.Must(other.Err())
			out, err = revoker.Revoke(w.Ctx, victim, 1)
			rwMustBe(w, "second revoke", out, lock.Released, err)
			if _, err := revoker.Break(w.Ctx, victim); !errors.Is(err, client.ErrNoNode) {
				t.Errorf("break of who has gone = %v", err)
			}
			told.must(w, lock.Forced, lock.Released, lock.Released)
			unlock(w, other)
			w.AwaitChildren("/lock", 0)
		})
	}
}

// A contender that waits in the line answers when it holds the lock.
func TestRevokeOfAWaiter(t *testing.T) {
	both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		h, err := newLock(w.C, lock.RWOptions{}).take(w.Ctx, lock.Write, 0)
		w.Must(err)
		next := want(w, newLock(w.C, lock.RWOptions{OnRevoke: func(*hold.Held, lock.Kind) bool { return true }}), lock.Write, 0)
		revoker := newLock(w.Look, lock.RWOptions{})
		all, err := revoker.Contenders(w.Ctx)
		w.Must(err)
		who := all[len(all)-1]
		if who.Holds || who.Shared {
			t.Fatalf("the last of the contenders is %+v", who)
		}
		asked, last := make(chan struct{}), who
		go func() {
			defer close(asked)
			out, err := revoker.Revoke(w.Ctx, last, lock.NoForce)
			rwMustBe(w, "revoke", out, lock.Released, err)
		}()
		for !who.Asked {
			all, err := revoker.Contenders(w.Ctx)
			w.Must(err)
			who = all[len(all)-1]
		}
		if !next.waits() {
			t.Error("there are two writers")
		}
		unlock(w, h)
		<-asked
		<-next.get().Context().Done()
		w.AwaitChildren("/lock", 0)
	})
}

// One whose place is broken finds out when it is woken; a holder at once.
func TestBreak(t *testing.T) {
	both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		l := newLock(w.C, lock.RWOptions{Options: hold.Options{Data: []byte("me")}})
		h, err := l.take(w.Ctx, lock.Read, 0)
		w.Must(err)
		next := want(w, l, lock.Write, 0)
		all, err := l.Contenders(w.Ctx)
		w.Must(err)
		for _, who := range slices.Backward(all) {
			broken, err := l.Break(w.Ctx, who)
			w.Must(err)
			if string(broken.Data) != "me" || broken.Path != who.Path {
				t.Errorf("broken: %+v, want %+v", broken, who)
			}
		}
		<-h.Context().Done()
		<-next.done
		if !errors.Is(next.err, recipes.ErrLost) {
			t.Errorf("lock of whose place was broken = %v", next.err)
		}
		if err := h.Release(w.Ctx); !errors.Is(err, recipes.ErrLost) {
			t.Errorf("release of a broken lock = %v", err)
		}
		w.AwaitChildren("/lock", 0)
	})
}

// The next contender asks the holders with lower priorities, and they release. Those with
// higher ones are not asked.
func TestPriorityAsks(t *testing.T) {
	w := trial.New(t)
	asked := make(chan int, 10)
	reader := func(p int) *hold.Held {
		l, err := lock.NewPriority(w.C, "/lock", lock.RWOptions{OnRevoke: func(*hold.Held, lock.Kind) bool {
			asked <- p
			return true
		}})
		w.Must(err)
		h, err := l.RLock(w.Ctx, int32(p))
		w.Must(err)
		return h
	}
	important := reader(9)
	reader(1)
	reader(2)
	l, err := lock.NewPriority(w.Look, "/lock", lock.RWOptions{Ask: true})
	w.Must(err)
	writer := want(w, priority{l}, lock.Write, 5)
	got := []int{<-asked, <-asked}
	slices.Sort(got)
	if !slices.Equal(got, []int{1, 2}) {
		t.Errorf("asked were %v, want those with 1 and 2", got)
	}
	w.AwaitChildren("/lock", 3)
	w.Must(important.Err())
	unlock(w, important)
	unlock(w, writer.get())
	w.AwaitChildren("/lock", 0)
	if len(asked) > 0 {
		t.Errorf("%d was asked, too", <-asked)
	}
}
