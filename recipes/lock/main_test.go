package lock_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mutex returns the lock /l.
func mutex(t testing.TB, c *client.Client, o lock.Options) *lock.Mutex {
	t.Helper()
	m, err := lock.NewMutex(c, "/l", o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// held returns the lock /l, which is free.
func held(w *trial.World, c *client.Client, o lock.Options) *hold.Held {
	w.Helper()
	h, err := mutex(w, c, o).Lock(w.Ctx)
	w.Must(err)
	return h
}

// outcome is that of a Lock in another goroutine.
type outcome struct {
	held *hold.Held
	err  error
}

// locking begins to wait for a lock.
func locking(ctx context.Context, m *lock.Mutex) <-chan outcome {
	out := make(chan outcome, 1)
	go func() {
		h, err := m.Lock(ctx)
		out <- outcome{h, err}
	}()
	return out
}

// watches is a request that watches a node's data.
func watches(e zktest.Traced) bool { return e.Op == jute.OpGetData && e.Watch }

var mustBe = trial.MustBe
