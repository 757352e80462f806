package trial

import (
	"context"
	"errors"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

// Held is a lock or the like that is held.
type Held interface {
	Token() client.Zxid
	Guard(ops ...client.Op) []client.Op
}

// Write makes a change under the guard of held.
func Write(ctx context.Context, c *client.Client, held Held) error {
	_, err := c.Multi(ctx, held.Guard(client.CreateOp("/w-", nil, client.CreateOptions{Mode: client.PersistentSequential}))...)
	return err
}

// Explained fails the test unless the run's fault explains err: recipes hide broken
// connections, and report the end of the session.
func (w *World) Explained(what string, err error) {
	w.Helper()
	if !w.Expires || !errors.Is(err, recipes.ErrLost) {
		w.Errorf("%s: %s = %v", w.Fault, what, err)
	}
}

// Superseded is called when another client holds later, which excludes held of C. It fails the
// test unless C's session has ended, and held is of no more use.
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

// GiveUp calls a function that gives back something of C's, which must fail only if that was
// lost or took as long as w.Ctx allows, and calls it again, which must fail.
func (w *World) GiveUp(what string, giveUp func(ctx context.Context) error) {
	w.Helper()
	began := time.Now()
	if err := giveUp(w.Ctx); err != nil && !(client.IsAmbiguous(err) && time.Since(began) >= leaving) {
		w.Explained(what, err)
	}
	if err := giveUp(w.Ctx); !errors.Is(err, recipes.ErrNotHeld) {
		w.Errorf("%s: second %s = %v", w.Fault, what, err)
	}
}
