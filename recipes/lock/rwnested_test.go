package lock_test

import (
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

// A writer gets the read lock at once, and keeps it when it releases the write lock. No
// writer comes in between; readers do then.
func TestDowngrade(t *testing.T) {
	both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		l := newLock(w.C, lock.RWOptions{})
		h, err := l.take(w.Ctx, lock.Write, 3)
		w.Must(err)
		reader := want(w, newLock(w.Look, lock.RWOptions{}), lock.Read, 3)
		writer := want(w, newLock(w.Look, lock.RWOptions{}), lock.Write, 3)
		read, err := l.take(h.Context(), lock.Read, 0)
		w.Must(err)
		if who := contender(w, l, read.Path()); !who.Shared || read.Token() != h.Token() {
			t.Errorf("got %+v with token %v beside one with %v", who, read.Token(), h.Token())
		}
		unlock(w, h)
		beside := reader.get()
		w.Must(read.Err())
		unlock(w, beside)
		if _, ok, err := newLock(w.Look, lock.RWOptions{}).try(w.Ctx, lock.Write, 9); ok || err != nil {
			t.Errorf("try of a writer beside the reader = %v, %v", ok, err)
		}
		if !writer.waits() {
			t.Error("a writer came in beside the reader")
		}
		unlock(w, read)
		after := writer.get()
		if after.Token() <= read.Token() {
			t.Errorf("the next writer's token is %v, the reader's %v", after.Token(), read.Token())
		}
		unlock(w, after)
		w.AwaitChildren("/lock", 0)
	})
}

// A reader may read once more though a writer waits. Neither a reader nor a writer can ask for
// the write lock: it would wait for itself.
func TestNested(t *testing.T) {
	both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		l := newLock(w.C, lock.RWOptions{})
		h, err := l.take(w.Ctx, lock.Read, 0)
		w.Must(err)
		writer := want(w, newLock(w.Look, lock.RWOptions{}), lock.Write, 0)
		again, err := l.take(h.Context(), lock.Read, 0)
		w.Must(err)
		for _, held := range []*hold.Held{h, again} {
			if _, err := l.take(held.Context(), lock.Write, 0); !errors.Is(err, lock.ErrSelf) {
				t.Errorf("upgrade = %v", err)
			}
			if _, ok, err := l.try(held.Context(), lock.Write, 0); ok || !errors.Is(err, lock.ErrSelf) {
				t.Errorf("try of an upgrade = %v, %v", ok, err)
			}
		}
		ctx := h.Context()
		unlock(w, h)
		if _, err := l.take(ctx, lock.Read, 0); err == nil {
			t.Error("a lock was had with a context that has ended")
		}
		if !writer.waits() {
			t.Error("a writer came in beside a reader")
		}
		unlock(w, again)
		unlock(w, writer.get())
		w.AwaitChildren("/lock", 0)
	})
}

// A read lock beside a lock that has been lost is none, and leaves nothing.
func TestNestedInALostLock(t *testing.T) {
	both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		l := newLock(w.C, lock.RWOptions{})
		h, err := l.take(w.Ctx, lock.Write, 0)
		w.Must(err)
		_, err = newLock(w.Look, lock.RWOptions{}).Break(w.Ctx, only(w, l))
		w.Must(err)
		// One that has not heard of the loss finds out when it has made the node.
		if _, err := l.Beside(w.Ctx, h); !errors.Is(err, recipes.ErrLost) {
			t.Errorf("read lock beside one that has gone = %v", err)
		}
		w.AwaitChildren("/lock", 0)
		if _, err := l.take(h.Context(), lock.Read, 0); !errors.Is(err, recipes.ErrLost) {
			t.Errorf("read lock beside one that is lost = %v", err)
		}
		if err := h.Release(w.Ctx); !errors.Is(err, recipes.ErrLost) {
			t.Errorf("release of a lost lock = %v", err)
		}
		w.AwaitChildren("/lock", 0)
	})
}
