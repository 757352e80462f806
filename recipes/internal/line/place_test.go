package line_test

import (
	"errors"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/internal/trial"
)

// A hold of a node that went with the session before is none from the first moment.
func TestHoldOfAnEndedSession(t *testing.T) {
	w := trial.New(t)
	c := w.Proxy.Client(t, func(o *client.Options) { o.RenewSession = true }).Namespace(w.Dir())
	l := &line.Line{Client: c, Path: "/line", Layout: &line.Layout{Labels: []string{"place-"}}}
	place, err := l.Join(w.Ctx, 0, nil)
	w.Must(err)
	old, _ := c.Session()
	w.Proxy.ExpireSession(old)
	for now := old; now == old; now, _ = c.Session() {
		_ = c.Sync(w.Ctx, "/") // until it finds out
		w.Must(w.Ctx.Err())
	}
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
	_, err = w.C.Multi(w.Ctx, place.Guard(client.CreateOp("/a", nil, client.Persistent, nil))...)
	w.Must(err)
	w.Must(w.Look.Delete(w.Ctx, place.Path(), client.AnyVersion))
	_, err = w.C.Multi(w.Ctx, place.Guard(client.CreateOp("/b", nil, client.Persistent, nil))...)
	failed, ok := errors.AsType[*client.MultiError](err)
	if !ok || failed.Path != place.Path() || !errors.Is(err, client.ErrNoNode) {
		t.Errorf("guarded create of who has lost his place = %v", err)
	}
	if got := w.Children("/"); len(got) != 2 {
		t.Errorf("there are %q, want a and line", got)
	}
}

// A node that was made in the place of the one that is held is not taken for it.
func TestHoldOfAnotherNode(t *testing.T) {
	w := trial.New(t)
	_, stat, err := w.C.CreateStat(w.Ctx, "/master", nil, client.Ephemeral, nil)
	w.Must(err)
	w.Must(w.Look.Delete(w.Ctx, "/master", client.AnyVersion))
	_, err = w.Look.Create(w.Ctx, "/master", nil, client.Ephemeral, nil)
	w.Must(err)
	h := line.NewHold(w.Ctx, w.C, "/master", line.HoldOptions{Czxid: stat.Czxid})
	defer h.Stop()
	<-h.Context().Done()
	if err := h.Err(); !errors.Is(err, recipes.ErrLost) {
		t.Errorf("the hold ends with %v, want that it is lost", err)
	}
}
