package line_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// renewing returns a client that begins a new session when one ends.
func renewing(w *trial.World) *client.Client {
	w.Helper()
	return w.Proxy.Client(w.T, func(o *client.Options) { o.RenewSession = true }).WithRetry(trial.Quick()).Namespace(w.Dir())
}

// renew ends the session of such a client, and waits for the next one.
func renew(w *trial.World, c *client.Client) {
	w.Helper()
	old := c.Session().ID()
	w.Proxy.ExpireSession(old)
	for now := old; now == old; now = c.Session().ID() {
		_ = c.Sync(w.Ctx, "/") // until it finds out
		w.Must(w.Ctx.Err())
	}
}

// A hold of a node that went with the session before is none from the first moment.
func TestHoldOfAnEndedSession(t *testing.T) {
	w := trial.New(t)
	c := renewing(w)
	place := join(w, newLine(c))
	renew(w, c)
	h := place.Hold(w.Ctx, line.HoldOptions{})
	defer h.Stop()
	if err := h.Err(); !errors.Is(err, recipes.ErrLost) {
		t.Errorf("the hold's error is %v, want that it is lost", err)
	}
	w.Must(place.Leave(w.Ctx))
}

func TestGuard(t *testing.T) {
	w := trial.New(t)
	l := &line.Line{Client: w.C, Path: "/line", Layout: &line.Layout{Labels: []string{"place-"}}}
	place, err := l.Join(w.Ctx, 0, nil)
	w.Must(err)
	_, err = w.C.Multi(w.Ctx, place.Guard(client.CreateOp("/a", nil, client.CreateOptions{}))...)
	w.Must(err)
	w.Must(w.Look.Delete(w.Ctx, place.Path(), client.AnyVersion))
	_, err = w.C.Multi(w.Ctx, place.Guard(client.CreateOp("/b", nil, client.CreateOptions{}))...)
	failed, ok := errors.AsType[*client.MultiError](err)
	if !ok || failed.Path != place.Path() || !errors.Is(err, client.ErrNoNode) {
		t.Errorf("guarded create after the place was lost = %v", err)
	}
	// The servers may have deleted the empty line, which is a container.
	if got := w.Children("/"); !slices.Contains(got, "a") || slices.Contains(got, "b") {
		t.Errorf("there are %q, want a and not b", got)
	}
}

// A node that was made in the place of the one that is held is not taken for it.
func TestHoldOfAnotherNode(t *testing.T) {
	w := trial.New(t)
	made, err := w.C.Create(w.Ctx, "/master", nil, client.CreateOptions{Mode: client.Ephemeral, Stat: true})
	w.Must(err)
	w.Must(w.Look.Delete(w.Ctx, "/master", client.AnyVersion))
	_, err = w.Look.Create(w.Ctx, "/master", nil, client.CreateOptions{Mode: client.Ephemeral})
	w.Must(err)
	h := line.NewHold(w.Ctx, w.C, "/master", line.HoldOptions{Czxid: made.Stat.Czxid})
	defer h.Stop()
	<-h.Context().Done()
	if err := h.Err(); !errors.Is(err, recipes.ErrLost) {
		t.Errorf("the hold ends with %v, want that it is lost", err)
	}
}

// A place is waited for in its session only: in the next one it does not exist, and others
// would be waited for in vain.
func TestAwaitInAnEndedSession(t *testing.T) {
	w := trial.New(t)
	first := join(w, newLine(w.Look))
	c := renewing(w)
	second := join(w, newLine(c))
	err := second.Await(w.Ctx, func(entries []line.Entry, own int) int {
		renew(w, c)
		return line.First(entries, own)
	})
	if !errors.Is(err, recipes.ErrLost) || !errors.Is(err, client.ErrSessionExpired) {
		t.Errorf("await = %v", err)
	}
	if ok, err := second.Try(w.Ctx, line.First); ok || !errors.Is(err, recipes.ErrLost) {
		t.Errorf("try = %v, %v", ok, err)
	}
	w.Must(second.Leave(w.Ctx))
	w.Must(first.Leave(w.Ctx))
}

// With an anonymous layout, and a path that was deleted and created again, there may be
// another place with the same name. It is not deleted, and not taken for the own one.
func TestAnonymousPlaceOfAnother(t *testing.T) {
	w := trial.New(t)
	numbered := func(c *client.Client) *line.Line {
		l := newLine(c)
		l.Layout = &line.Layout{Labels: []string{"n_"}, Anonymous: true}
		return l
	}
	mine := join(w, numbered(w.C))
	_, err := tree.Delete(w.Ctx, w.Look, "/line", tree.DeleteOptions{})
	w.Must(err)
	other := join(w, numbered(w.Look))
	if mine.Path() != other.Path() {
		t.Fatalf("the places are %s and %s", mine.Path(), other.Path())
	}
	w.Must(w.C.Sync(w.Ctx, "/"))
	if err := mine.Await(w.Ctx, line.First); !errors.Is(err, recipes.ErrLost) {
		t.Errorf("await of a place that is gone = %v", err)
	}
	h := mine.Hold(w.Ctx, line.HoldOptions{})
	if err := h.End(w.Ctx); !errors.Is(err, recipes.ErrLost) {
		t.Errorf("end of a hold that is lost = %v", err)
	}
	w.Must(mine.Leave(w.Ctx))
	if got := w.Children("/line"); len(got) != 1 {
		t.Errorf("there are %q, want the other's place", got)
	}
	w.Must(other.Await(w.Ctx, line.First))
	w.Must(other.Leave(w.Ctx))
}

// A deletion whose context has ended goes to the background, whatever the cause of the end:
// otherwise a candidate that gave up while it had no connection left its node.
func TestEndByAfterTheContextHasEnded(t *testing.T) {
	w := trial.New(t)
	w.Disconnect()
	ctx, cancel := context.WithCancelCause(w.Ctx)
	cancel(recipes.ErrClosed)
	err := line.EndBy(ctx, w.C, "/a", func(ctx context.Context) error { return context.Cause(ctx) })
	if !client.IsAmbiguous(err) || !errors.Is(err, recipes.ErrClosed) {
		t.Errorf("the deletion ended with %v", err)
	}
	w.Proxy.Accept()
}
