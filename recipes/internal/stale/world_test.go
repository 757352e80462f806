package stale_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/zktest"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an ensemble with a server that can lag behind.
type world struct {
	*testing.T
	ctx   context.Context // ends what hangs
	there *client.Client  // of the leader
	here  *client.Client  // of the server that lags
	slow  *zktest.Proxy   // of here
	e     *zktest.Ensemble
	id    int // of the server that lags
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	e := zktest.StartEnsemble(t, 3, zktest.Patient())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	w := &world{T: t, ctx: trial.Patient(ctx), e: e, id: e.Followers()[0]}
	w.slow = e.At(w.id - 1)
	w.there = e.At(e.Leader() - 1).Client(t).WithRetry(trial.Quick())
	w.here = w.slow.Client(t).WithRetry(trial.Quick())
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) is(err, target error) {
	w.Helper()
	if !errors.Is(err, target) {
		w.Errorf("error is %v, want %v", err, target)
	}
}

// lag lets the slow server catch up, and then keeps all later changes from it.
func (w *world) lag() {
	w.Helper()
	w.must(w.here.Sync(w.ctx, "/"))
	w.e.Lag(w.id)
}

// answer is the result of a call.
type answer[T any] struct {
	value T
	err   error
}

// begin makes a call in the background.
func begin[T any](w *world, call func(ctx context.Context) (T, error)) <-chan answer[T] {
	done := make(chan answer[T], 1)
	go func() {
		v, err := call(w.ctx)
		done <- answer[T]{v, err}
	}()
	return done
}

// behind makes a call while the slow server lags, and lets the server catch up when the call
// has returned, or has sent a request that only the leader can answer.
func behind[T any](w *world, call func(ctx context.Context) (T, error)) (T, error) {
	w.Helper()
	asks := w.slow.Record()
	done := begin(w, call)
	asked := make(chan error, 1)
	ctx, cancel := context.WithCancel(w.ctx)
	go func() { asked <- asks.Await(ctx, "a request for the leader", forLeader) }()
	select {
	case a := <-done:
		cancel()
		<-asked
		w.e.CatchUp(w.id)
		return a.value, a.err
	case err := <-asked:
		cancel()
		w.must(err)
		w.e.CatchUp(w.id)
		a := <-done
		return a.value, a.err
	}
}

// behindErr is behind for calls that return only an error.
func behindErr(w *world, call func(ctx context.Context) error) error {
	w.Helper()
	_, err := behind(w, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

// forLeader reports whether only the leader can answer a request.
func forLeader(r zktest.Traced) bool { return r.Op == jute.OpSync || r.Op.Write() }
