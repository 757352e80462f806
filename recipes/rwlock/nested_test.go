package rwlock_test

import (
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/rwlock"
)

// Who writes gets the read lock at once, and keeps it when it gives up the write lock. No
// writer comes in between; readers do then.
func TestDowngrade(t *testing.T) {
	both(t, func(w *trial.World, lock func(*client.Client, rwlock.Options) locker) {
		l := lock(w.C, rwlock.Options{})
		h, err := l.take(w.Ctx, rwlock.Write, 3)
		w.Must(err)
		reader := want(w, lock(w.Look, rwlock.Options{}), rwlock.Read, 3)
		writer := want(w, lock(w.Look, rwlock.Options{}), rwlock.Write, 3)
		read, err := l.take(h.Context(), rwlock.Read, 0)
		w.Must(err)
		if read.Kind() != rwlock.Read || read.Token() != h.Token() {
			t.Errorf("got a %v lock with token %v beside one with %v", read.Kind(), read.Token(), h.Token())
		}
		unlock(w, h)
		beside := reader.get()
		w.Must(read.Err())
		unlock(w, beside)
		if _, ok, err := lock(w.Look, rwlock.Options{}).try(w.Ctx, rwlock.Write, 9); ok || err != nil {
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

// Who reads may read once more though a writer waits; who reads or writes can't ask for
// the write lock: it would wait for itself.
func TestNested(t *testing.T) {
	both(t, func(w *trial.World, lock func(*client.Client, rwlock.Options) locker) {
		l := lock(w.C, rwlock.Options{})
		h, err := l.take(w.Ctx, rwlock.Read, 0)
		w.Must(err)
		writer := want(w, lock(w.Look, rwlock.Options{}), rwlock.Write, 0)
		again, err := l.take(h.Context(), rwlock.Read, 0)
		w.Must(err)
		for _, held := range []*rwlock.Held{h, again} {
			if _, err := l.take(held.Context(), rwlock.Write, 0); !errors.Is(err, rwlock.ErrSelf) {
				t.Errorf("upgrade = %v", err)
			}
			if _, ok, err := l.try(held.Context(), rwlock.Write, 0); ok || !errors.Is(err, rwlock.ErrSelf) {
				t.Errorf("try of an upgrade = %v, %v", ok, err)
			}
		}
		ctx := h.Context()
		unlock(w, h)
		if _, err := l.take(ctx, rwlock.Read, 0); err == nil {
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
	both(t, func(w *trial.World, lock func(*client.Client, rwlock.Options) locker) {
		l := lock(w.C, rwlock.Options{})
		h, err := l.take(w.Ctx, rwlock.Write, 0)
		w.Must(err)
		_, err = lock(w.Look, rwlock.Options{}).Break(w.Ctx, only(w, l))
		w.Must(err)
		// One that has not heard of the loss finds out when it has made the node.
		if _, err := h.Beside(w.Ctx); !errors.Is(err, recipes.ErrLost) {
			t.Errorf("read lock beside one that has gone = %v", err)
		}
		w.AwaitChildren("/lock", 0)
		if _, err := l.take(h.Context(), rwlock.Read, 0); !errors.Is(err, recipes.ErrLost) {
			t.Errorf("read lock beside one that is lost = %v", err)
		}
		if err := h.Unlock(w.Ctx); !errors.Is(err, recipes.ErrLost) {
			t.Errorf("unlock of a lost lock = %v", err)
		}
		w.AwaitChildren("/lock", 0)
	})
}
