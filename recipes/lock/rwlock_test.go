package lock_test

import (
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

// Readers share, a writer is alone, and contenders wait for those that came before.
func TestReadersAndWriters(t *testing.T) {
	both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		l := newLock(w.C, lock.RWOptions{})
		r1, err := l.take(w.Ctx, lock.Read, 0)
		w.Must(err)
		r2, err := l.take(w.Ctx, lock.Read, 0)
		w.Must(err)
		writer := want(w, l, lock.Write, 0)
		r3 := want(w, l, lock.Read, 0)
		unlock(w, r1)
		if _, ok, err := l.try(w.Ctx, lock.Write, 0); ok || err != nil {
			t.Errorf("try of a second writer = %v, %v", ok, err)
		}
		if !writer.waits() || !r3.waits() {
			t.Errorf("there is a reader, but the writer waits = %v and the reader behind it %v", writer.waits(), r3.waits())
		}
		unlock(w, r2)
		held := writer.get()
		if !r3.waits() {
			t.Error("a reader came in beside the writer")
		}
		unlock(w, held)
		unlock(w, r3.get())
		w.AwaitChildren("/lock", 0)
	})
}

func TestReleaseTwice(t *testing.T) {
	both(t, func(w *trial.World, newLock func(*client.Client, lock.RWOptions) locker) {
		l := newLock(w.C, lock.RWOptions{})
		h, err := l.take(w.Ctx, lock.Write, 0)
		w.Must(err)
		w.Must(h.Err())
		unlock(w, h)
		if err := h.Release(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
			t.Errorf("second release = %v", err)
		}
		if err := h.Err(); !errors.Is(err, recipes.ErrNotHeld) {
			t.Errorf("Err = %v after release", err)
		}
	})
}
