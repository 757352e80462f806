package trial

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

// Held is what one has of a lock or the like.
type Held interface {
	Token() client.Zxid
	Guard(ops ...client.Op) []client.Op
}

// Write makes a change that is done only if held is held.
func Write(ctx context.Context, c *client.Client, held Held) error {
	_, err := c.Multi(ctx, held.Guard(client.CreateOp("/w-", nil, client.CreateOptions{Mode: client.PersistentSequential}))...)
	return err
}

// Explained fails unless err is what the run's fault explains: a broken connection is
// hidden, and the end of the session is told.
func (w *World) Explained(what string, err error) {
	w.Helper()
	if !w.Expires || !errors.Is(err, recipes.ErrLost) {
		w.Errorf("%s: %s = %v", w.Fault, what, err)
	}
}

// Superseded is told that somebody has got what held, which is C's, excludes. It fails
// unless that is by the end of C's session, and held is of no use any more.
func (w *World) Superseded(held, later Held) {
	w.Helper()
	if !w.Expires {
		w.Errorf("%s: more have it than may", w.Fault)
	}
	if err := Write(w.Ctx, w.C, held); err == nil {
		w.Errorf("%s: the guard let a write through of one who has lost what guards it", w.Fault)
	}
	if later.Token() <= held.Token() {
		w.Errorf("%s: token %v of the later one, %v of the one before", w.Fault, later.Token(), held.Token())
	}
}

// GiveUp calls a function that gives back what C has, which fails only if it was lost, and
// calls it again, which does in any case.
func (w *World) GiveUp(what string, giveUp func(ctx context.Context) error) {
	w.Helper()
	if err := giveUp(w.Ctx); err != nil {
		w.Explained(what, err)
	}
	if err := giveUp(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
		w.Errorf("%s: second %s = %v", w.Fault, what, err)
	}
}
