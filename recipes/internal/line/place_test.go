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
	results, err := place.Guard(w.Ctx, client.CreateOp("/a", nil, client.Persistent, nil))
	if err != nil || len(results) != 1 || results[0].Path != "/a" {
		t.Errorf("guarded create = %v, %v", results, err)
	}
	results, err = place.Guard(w.Ctx, client.CreateOp("/b", nil, client.Persistent, nil), client.DeleteOp("/none", client.AnyVersion))
	if !errors.Is(err, client.ErrNoNode) || errors.Is(err, recipes.ErrLost) || len(results) != 2 {
		t.Errorf("guarded delete of nothing = %v, %v", results, err)
	}
	w.Must(w.Look.Delete(w.Ctx, place.Path(), client.AnyVersion))
	results, err = place.Guard(w.Ctx, client.CreateOp("/c", nil, client.Persistent, nil))
	if !errors.Is(err, recipes.ErrLost) || len(results) != 0 {
		t.Errorf("guarded create of who has lost his place = %v, %v", results, err)
	}
	if got := w.Children("/"); len(got) != 2 {
		t.Errorf("there are %q, want a and line", got)
	}
}
