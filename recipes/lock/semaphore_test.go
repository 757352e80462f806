package lock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

func newSemaphore(w *trial.World, c *client.Client, n int, o hold.Options) *lock.Semaphore {
	w.Helper()
	s, err := lock.NewSemaphore(c, "/sem", n, o)
	w.Must(err)
	return s
}

// counted returns a semaphore with as many leases as /count says.
func counted(w *trial.World, c *client.Client) *lock.Semaphore {
	w.Helper()
	s, err := lock.NewCountedSemaphore(c, "/sem", "/count", hold.Options{})
	w.Must(err)
	return s
}

// waiter is an Acquire that is under way.
type waiter struct {
	*trial.World
	done  chan struct{}
	lease *hold.Held
	err   error
}

// acquire begins to acquire leases.
func acquire(w *trial.World, ctx context.Context, s *lock.Semaphore, n int) *waiter {
	a := &waiter{World: w, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.lease, a.err = s.Acquire(ctx, n)
	}()
	return a
}

// get returns the lease once it is held.
func (a *waiter) get() *hold.Held {
	a.Helper()
	<-a.done
	a.Must(a.err)
	return a.lease
}

func (a *waiter) waits() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// empty checks that nothing of the semaphore's is left.
func empty(w *trial.World) {
	w.Helper()
	w.AwaitChildren("/sem/leases", 0)
	w.AwaitChildren("/sem/locks", 0)
}

// There are as many leases as the programs say; the others wait, in the order of arrival.
func TestLeases(t *testing.T) {
	w := trial.New(t)
	s := newSemaphore(w, w.C, 3, hold.Options{})
	two, err := s.Acquire(w.Ctx, 2)
	w.Must(err)
	one, ok, err := s.TryAcquire(w.Ctx, 1)
	if !ok || err != nil {
		t.Fatalf("try of the last lease = %v, %v", ok, err)
	}
	if one.Token() <= two.Token() {
		t.Errorf("tokens are %v and then %v", two.Token(), one.Token())
	}
	if lease, ok, err := s.TryAcquire(w.Ctx, 1); lease != nil || ok || err != nil {
		t.Errorf("try of one more lease = %v, %v, %v", lease, ok, err)
	}
	first := acquire(w, w.Ctx, s, 2)
	w.AwaitChildren("/sem/leases", 5)
	second := acquire(w, w.Ctx, s, 1)
	w.AwaitChildren("/sem/locks", 2)
	w.Must(one.Release(w.Ctx))
	if lease, ok, err := s.TryAcquire(w.Ctx, 1); lease != nil || ok || err != nil {
		t.Errorf("try of a lease that somebody waits for = %v, %v, %v", lease, ok, err)
	}
	if !first.waits() || !second.waits() {
		t.Errorf("one lease is free; who wants two waits = %v, who comes later = %v", first.waits(), second.waits())
	}
	w.Must(two.Release(w.Ctx))
	a, b := first.get(), second.get()
	if len(a.Nodes()) != 2 || a.Err() != nil {
		t.Errorf("lease of two is of %d, %q, %v", len(a.Nodes()), a.Nodes(), a.Err())
	}
	w.Must(a.Release(w.Ctx))
	w.Must(b.Release(w.Ctx))
	if err := b.Release(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
		t.Errorf("second release = %v", err)
	}
	empty(w)
}
