package hold_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
)

// tenure is one whose errors are given.
type tenure struct {
	ctx      context.Context
	err, end error
	ends     int
}

func (t *tenure) Context() context.Context { return t.ctx }
func (t *tenure) Err() error               { return t.err }

func (t *tenure) End(context.Context) error {
	t.ends++
	return t.end
}

// held returns a Held of t.
func (t *tenure) held(nodes ...string) *hold.Held {
	of := hold.Description{What: "it", Path: "/it", Nodes: nodes, Token: 7}
	return hold.New(context.Background(), of, func(ctx context.Context) hold.Tenure {
		t.ctx = ctx
		return t
	})
}

// Release returns what the package documentation says.
func TestRelease(t *testing.T) {
	lost := fmt.Errorf("%w: deleted", recipes.ErrLost)
	ambiguous := &client.Error{Err: client.ErrConnectionLoss, Ambiguous: true}
	for _, tt := range []struct {
		name            string
		err, end        error
		lost, ambiguous bool
		also            error
	}{
		{name: "held until the end"},
		{name: "lost", err: lost, lost: true},
		{name: "lost, found again", err: lost, end: lost, lost: true},
		{name: "found lost", end: lost, lost: true},
		{name: "the session ended meanwhile", end: client.ErrSessionExpired, lost: true, also: client.ErrSessionExpired},
		{name: "no server answers", end: ambiguous, ambiguous: true},
		{name: "lost, and no server answers", err: lost, end: ambiguous, lost: true, ambiguous: true},
		{name: "refused", end: client.ErrNoAuth, also: client.ErrNoAuth},
		{name: "ended by the recipe", err: recipes.ErrNotHeld, end: recipes.ErrNotHeld, also: recipes.ErrNotHeld},
	} {
		ten := &tenure{err: tt.err, end: tt.end}
		h := ten.held("/it")
		err := h.Release(context.Background())
		if errors.Is(err, recipes.ErrLost) != tt.lost || client.IsAmbiguous(err) != tt.ambiguous || tt.also != nil && !errors.Is(err, tt.also) {
			t.Errorf("%s: release = %v", tt.name, err)
		}
		if failed := tt.lost || tt.ambiguous || tt.also != nil; failed != (err != nil) {
			t.Errorf("%s: release = %v", tt.name, err)
		}
		if err := h.Release(context.Background()); !errors.Is(err, recipes.ErrNotHeld) || ten.ends != 1 {
			t.Errorf("%s: second release = %v, of %d ends", tt.name, err, ten.ends)
		}
		if err := h.Err(); !errors.Is(err, recipes.ErrNotHeld) {
			t.Errorf("%s: Err after release = %v", tt.name, err)
		}
	}
}

// A Held whose nodes prove nothing is not offered for its Guard.
func TestFromContext(t *testing.T) {
	outer := (&tenure{}).held("/a", "/b")
	if h, ok := hold.FromContext(outer.Context()); h != outer || !ok {
		t.Errorf("from its context: %v, %v", h, ok)
	}
	if h, ok := hold.FromContext((&tenure{}).held().Context()); ok {
		t.Errorf("from that of one without nodes: %v", h)
	}
	if got := outer.Guard(client.DeleteOp("/c", 1)); len(got) != 3 || len(outer.Nodes()) != 2 {
		t.Errorf("guard is %v, of %q", got, outer.Nodes())
	}
	if outer.Path() != "/it" || outer.Token() != 7 {
		t.Errorf("path %s, token %v", outer.Path(), outer.Token())
	}
}
