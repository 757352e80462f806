package lock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/trial"
	"github.com/zkd-project/zkd/recipes/lock"
)

func TestWith(t *testing.T) {
	w := trial.New(t)
	m := mutex(t, w.C, lock.Options{})
	ours := errors.New("ours")
	got, err := lock.With(w.Ctx, m, func(ctx context.Context) (string, error) {
		if got := w.Children("/l"); len(got) != 1 {
			t.Errorf("inside there are %q", got)
		}
		return "result", ours
	})
	if got != "result" || !errors.Is(err, ours) || errors.Is(err, recipes.ErrLost) {
		t.Errorf("with = %q, %v", got, err)
	}
	w.AwaitChildren("/l", 0)
}

// The function's context ends when the lock is lost, and With returns both errors.
func TestWithALockThatIsLost(t *testing.T) {
	w := trial.New(t)
	m := mutex(t, w.C, lock.Options{})
	ours := errors.New("ours")
	for _, own := range []error{nil, ours} {
		got, err := lock.With(w.Ctx, m, func(ctx context.Context) (int, error) {
			w.Must(w.Look.Delete(w.Ctx, "/l/"+w.Children("/l")[0], client.AnyVersion))
			<-ctx.Done()
			mustBe(t, context.Cause(ctx), recipes.ErrLost)
			return 1, own
		})
		mustBe(t, err, recipes.ErrLost)
		if got != 1 || own != nil && !errors.Is(err, own) {
			t.Errorf("with = %d, %v", got, err)
		}
	}
}

// The function knows what it holds.
func TestFromContext(t *testing.T) {
	w := trial.New(t)
	if _, ok := hold.FromContext(w.Ctx); ok {
		t.Error("something is held without a lock")
	}
	m := mutex(t, w.C, lock.Options{})
	_, err := lock.With(w.Ctx, m, func(ctx context.Context) (int, error) {
		h, ok := hold.FromContext(ctx)
		if !ok || h.Err() != nil || trial.Write(w.Ctx, w.C, h) != nil {
			t.Errorf("inside: %v, %v", h, ok)
		}
		other, err := lock.NewMutex(w.C, "/other", lock.Options{})
		w.Must(err)
		return lock.With(ctx, other, func(ctx context.Context) (int, error) {
			inner, _ := hold.FromContext(ctx)
			if !strings.HasPrefix(inner.Path(), "/other/") || inner.Token() <= h.Token() {
				t.Errorf("further inside: %s", inner.Path())
			}
			return 0, nil
		})
	})
	w.Must(err)
}

// It releases when the function panics, and does not recover.
func TestWithAPanic(t *testing.T) {
	w := trial.New(t)
	defer func() {
		if r := recover(); r != "oh" {
			t.Errorf("recovered %v", r)
		}
		w.AwaitChildren("/l", 0)
	}()
	_, _ = lock.With(w.Ctx, mutex(t, w.C, lock.Options{}), func(context.Context) (int, error) { panic("oh") })
}

// The caller's context ends the function's, too, and the lock is given up nevertheless.
func TestWithAContextThatEnds(t *testing.T) {
	w := trial.New(t)
	ended := errors.New("ended")
	ctx, end := context.WithCancelCause(w.Ctx)
	_, err := lock.With(ctx, mutex(t, w.C, lock.Options{}), func(ctx context.Context) (int, error) {
		end(ended)
		<-ctx.Done()
		return 0, context.Cause(ctx)
	})
	mustBe(t, err, ended)
	if errors.Is(err, recipes.ErrLost) {
		t.Errorf("%v: it was not lost", err)
	}
	w.AwaitChildren("/l", 0)
	_, err = lock.With(ctx, mutex(t, w.C, lock.Options{}), func(context.Context) (int, error) {
		t.Error("called, though the context has ended")
		return 0, nil
	})
	mustBe(t, err, ended)
	w.AwaitChildren("/l", 0)
}

// multi returns a lock of those with the paths.
func multi(t testing.TB, c *client.Client, paths ...string) *lock.Multi {
	t.Helper()
	var members []lock.Member
	for _, path := range paths {
		m, err := lock.NewMutex(c, path, lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, lock.Of(m.Path(), m.Lock))
	}
	m, err := lock.NewMulti(members...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestNewMulti(t *testing.T) {
	if _, err := lock.NewMulti(); err == nil || !strings.Contains(err.Error(), "at least one") {
		t.Errorf("without members: %v", err)
	}
	a, b := lock.Of("/a", new(lock.Mutex).Lock), lock.Of("/b", new(lock.Mutex).Lock)
	if _, err := lock.NewMulti(a, b, a); err == nil || !strings.Contains(err.Error(), "/a") {
		t.Errorf("one member twice: %v", err)
	}
}

// The locks are acquired in the order of the paths, and released in the reverse order.
func TestMulti(t *testing.T) {
	w := trial.New(t)
	m := multi(t, w.C, "/c", "/a", "/b")
	rec := w.Record()
	h, err := m.Lock(w.Ctx)
	w.Must(err)
	w.Must(h.Err())
	awaitWatches(w, rec, 3)
	w.Must(h.Release(w.Ctx))
	var order []string
	for _, line := range w.Trace(rec) {
		op, path, _ := strings.Cut(line, " ")
		if op == "create2" && !slices.Contains(order, "lock "+path[:2]) {
			order = append(order, "lock "+path[:2])
		} else if op == "delete" {
			order = append(order, "unlock "+path[:2])
		}
	}
	if want := []string{"lock /a", "lock /b", "lock /c", "unlock /c", "unlock /b", "unlock /a"}; !slices.Equal(order, want) {
		t.Errorf("order is %q, want %q", order, want)
	}
	mustBe(t, h.Release(w.Ctx), recipes.ErrNotHeld)
	mustBe(t, h.Err(), recipes.ErrNotHeld)
	<-h.Context().Done()
}

// All or none: the acquired locks are released when another one cannot be acquired, or one is lost.
func TestMultiThatFails(t *testing.T) {
	w := trial.New(t)
	m := multi(t, w.C, "/a", "/l")
	first := held(w, w.Look, lock.Options{})
	waiting := func(ctx context.Context) <-chan error {
		rec := w.Record()
		out := make(chan error, 1)
		go func() {
			_, err := m.Lock(ctx)
			out <- err
		}()
		awaitWatches(w, rec, 2) // over /a, which it has, and the place before it in /l
		return out
	}
	ctx, giveUp := context.WithCancel(w.Ctx)
	out := waiting(ctx)
	giveUp()
	mustBe(t, <-out, context.Canceled)
	w.AwaitChildren("/a", 0)
	w.AwaitChildren("/l", 1)

	out = waiting(w.Ctx)
	w.Must(w.Look.Delete(w.Ctx, "/a/"+w.Children("/a")[0], client.AnyVersion))
	mustBe(t, <-out, recipes.ErrLost)
	w.AwaitChildren("/a", 0)
	w.AwaitChildren("/l", 1)
	w.Must(first.Release(w.Ctx))
}

func TestMultiThatIsLost(t *testing.T) {
	w := trial.New(t)
	_, err := lock.With(w.Ctx, multi(t, w.C, "/a", "/b"), func(ctx context.Context) (int, error) {
		w.Must(w.Look.Delete(w.Ctx, "/b/"+w.Children("/b")[0], client.AnyVersion))
		<-ctx.Done()
		return 0, nil
	})
	mustBe(t, err, recipes.ErrLost)
	w.AwaitChildren("/a", 0)
	w.AwaitChildren("/b", 0)
}

// Those that name them in different orders don't wait for each other in a circle.
func TestMultiWithoutCircles(t *testing.T) {
	w := trial.New(t)
	var work sync.WaitGroup
	inside := make(chan struct{}, 1)
	for _, paths := range [][]string{{"/a", "/b", "/c"}, {"/c", "/b", "/a"}, {"/b", "/a", "/c"}} {
		m := multi(t, w.Other(), paths...)
		work.Go(func() {
			for range 5 {
				_, err := lock.With(w.Ctx, m, func(context.Context) (int, error) {
					select {
					case inside <- struct{}{}:
					default:
						t.Error("two are inside")
					}
					<-inside
					return 0, nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
}
