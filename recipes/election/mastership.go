package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/hold"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Mastership is what the master holds: a hold.Held without a Guard. As the nodes of all
// masters have the same path, the existence of the node proves nothing; fence with Token.
type Mastership struct {
	held   *hold.Held
	tenure *tenure
}

// Context is Held.Context.
func (ms *Mastership) Context() context.Context { return ms.held.Context() }

// Err is Held.Err.
func (ms *Mastership) Err() error { return ms.held.Err() }

// Token is Held.Token.
func (ms *Mastership) Token() client.Zxid { return ms.held.Token() }

// Release is Held.Release.
func (ms *Mastership) Release(ctx context.Context) error { return ms.held.Release(ctx) }

// won returns the mastership of a run whose node has that Stat.
func (r *run) won(ctx context.Context, stat client.Stat) *Mastership {
	r.czxid = stat.Czxid
	ms := &Mastership{}
	of := hold.Description{What: "mastership " + r.m.path, Path: r.m.path, Token: r.czxid}
	ms.held = hold.New(ctx, of, func(ctx context.Context) hold.Tenure {
		ctx, quit := context.WithCancel(ctx)
		o := line.HoldOptions{Reserve: r.m.o.Reserve, Session: r.session, Czxid: r.czxid}
		h := line.NewHold(ctx, r.m.c, r.m.path, o)
		ms.tenure = &tenure{hold: h, clear: func(ctx context.Context) error {
			quit() // ends the context of h, but not its watch, which the deletion uses up
			defer h.Stop()
			return r.withdraw(ctx)
		}}
		return ms.tenure
	})
	return ms
}

// withdraw deletes the run's node if it exists, if need be in the background. The error
// wraps recipes.ErrLost if the node was known to exist and does not exist any more, and is
// ambiguous if that is not known yet.
func (r *run) withdraw(ctx context.Context) error {
	if r.czxid == 0 && !r.unknown {
		return nil
	}
	err := line.EndBy(ctx, r.c, r.m.path, r.delete)
	if client.IsAmbiguous(err) {
		go r.forget()
	}
	return err
}

// forget deletes the node if it exists. It returns when the session ends at the latest.
func (r *run) forget() {
	for errors.Is(r.delete(context.Background()), client.ErrConnectionLoss) {
	}
}

// delete deletes the run's own node, and no other.
func (r *run) delete(ctx context.Context) error {
	known := r.czxid != 0
	for {
		stat, there, err := r.checkMaster(ctx)
		switch {
		case errors.Is(err, client.ErrSessionExpired):
			return fmt.Errorf("%w: %w", recipes.ErrLost, err)
		case err != nil:
			return err
		case there && r.mine(stat):
		case known && !r.unknown:
			return fmt.Errorf("%w: %s was deleted", recipes.ErrLost, r.m.path)
		default:
			return nil
		}
		// The next master's node may have the same version. But it would have to be created
		// between these two requests, while the session continues.
		err = r.c.Delete(ctx, r.m.path, stat.Version)
		r.unknown = r.unknown || client.IsAmbiguous(err)
		if !client.IsAmbiguous(err) && !errors.Is(err, client.ErrBadVersion) && !errors.Is(err, client.ErrNoNode) {
			return err
		}
	}
}
