package election_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/election"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// Run returns what its function does, and what became of leadership.
func TestRun(t *testing.T) {
	w := trial.New(t)
	e, err := election.New(w.C, "/e", election.Options{Layout: election.CuratorSelector})
	w.Must(err)
	enough := errors.New("enough")
	for _, c := range []struct {
		name string
		fn   func(ctx context.Context, l *election.Leadership) error
		want []error
		not  error
	}{
		{"it returns", func(context.Context, *election.Leadership) error { return nil }, nil, nil},
		{"it fails", func(context.Context, *election.Leadership) error { return enough }, []error{enough}, recipes.ErrLost},
		{"it resigns", func(ctx context.Context, l *election.Leadership) error { return l.Release(ctx) }, nil, nil},
		{"it is deposed", func(ctx context.Context, l *election.Leadership) error {
			w.Must(w.Look.Delete(w.Ctx, l.Path(), client.AnyVersion)) // ctx may end before the reply
			<-ctx.Done()
			return enough
		}, []error{enough, recipes.ErrLost}, nil},
		{"it is deposed and does not notice", func(ctx context.Context, l *election.Leadership) error {
			w.Must(w.Look.Delete(w.Ctx, l.Path(), client.AnyVersion)) // ctx may end before the reply
			return nil
		}, []error{recipes.ErrLost}, nil},
	} {
		err := e.Run(w.Ctx, c.fn)
		if (err == nil) != (c.want == nil) || c.not != nil && errors.Is(err, c.not) {
			t.Errorf("%s: run = %v", c.name, err)
		}
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: run = %v, want %v", c.name, err, want)
			}
		}
		if names := w.Children("/e"); len(names) > 0 {
			t.Errorf("%s: there are %q left", c.name, names)
		}
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a panic got lost")
			}
		}()
		_ = e.Run(w.Ctx, func(context.Context, *election.Leadership) error { panic("oops") })
	}()
	if names := w.Children("/e"); len(names) > 0 {
		t.Errorf("after a panic there are %q left", names)
	}
}

// RunAgain continues when its function returns nil, and when leadership is lost, and never
// calls it twice at a time.
func TestRunAgain(t *testing.T) {
	w := trial.New(t)
	c := w.Proxy.Client(t, func(o *client.Options) { o.RenewSession = true }).Namespace(w.Dir())
	e, err := election.New(c, "/e", election.Options{})
	w.Must(err)
	enough := errors.New("enough")
	terms, inside := 0, atomic.Int32{}
	err = e.RunAgain(w.Ctx, func(ctx context.Context, l *election.Leadership) error {
		if inside.Add(1) != 1 {
			t.Error("it is called while it runs")
		}
		defer inside.Add(-1)
		terms++
		switch terms {
		case 1:
			return nil
		case 2:
			w.Must(w.Look.Delete(w.Ctx, l.Path(), client.AnyVersion))
			<-ctx.Done()
			return errors.New("deposed") // of no interest, as that it is lost is known
		case 3:
			id := c.Session().ID()
			w.Proxy.ExpireSession(id)
			<-ctx.Done()
			return ctx.Err()
		}
		return enough
	})
	if !errors.Is(err, enough) || terms != 4 {
		t.Errorf("after %d terms: %v", terms, err)
	}
	ctx, cancel := context.WithCancelCause(w.Ctx)
	err = e.RunAgain(ctx, func(ctx context.Context, _ *election.Leadership) error {
		cancel(enough)
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("with a context that ends: %v", err)
	}
	if names := w.Children("/e"); len(names) > 0 {
		t.Errorf("there are %q left", names)
	}
}

// What fn says is the end also if nobody knows whether leadership lasted until then; and it
// is not if leadership is known to be lost.
func TestRunAgainEndsWithWhatFnSays(t *testing.T) {
	w := trial.New(t)
	said := errors.New("said")
	for _, x := range []struct {
		beside error
		calls  int
	}{
		{nil, 1},
		{&client.Error{Err: client.ErrConnectionLoss, Ambiguous: true}, 1},
		{recipes.ErrLost, 2},
	} {
		calls := 0
		err := election.ServeAgain(w.Ctx, w.C, func() (error, error) {
			if calls++; calls == 1 {
				return said, x.beside
			}
			return said, nil
		})
		if calls != x.calls || !errors.Is(err, said) || client.IsAmbiguous(err) != client.IsAmbiguous(x.beside) {
			t.Errorf("beside %v: %v after %d calls, want %d", x.beside, err, calls, x.calls)
		}
	}
}
