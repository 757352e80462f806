package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Mastership is what the master has, until Resign or until it is lost.
type Mastership struct {
	run  *run
	hold *line.Hold
	quit context.CancelFunc // ends the hold's context, and leaves its watch

	mu       sync.Mutex
	resigned bool
	cleared  bool // the node has been seen to
}

// Context returns a context that ends when mastership is lost, with a cause that wraps
// recipes.ErrLost, or resigned.
func (ms *Mastership) Context() context.Context { return ms.hold.Context() }

// Err returns nil while one is master. It looks at the clock, too, which Context does not if
// the process was stopped for a while: so ask before what must not be done twice. It
// returns recipes.ErrNotHeld after Resign.
func (ms *Mastership) Err() error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	err := ms.hold.Err()
	if ms.cleared && !errors.Is(err, recipes.ErrLost) {
		return ms.notHeld()
	}
	return err
}

func (ms *Mastership) notHeld() error {
	return fmt.Errorf("%w: mastership %s was resigned", recipes.ErrNotHeld, ms.run.m.path)
}

// Token returns a number that is larger than those of all masters before: the zxid at which
// the master's node was created. It is what one fences with: as all masters' nodes have one
// path there is no Guard here, unlike with a Leadership.
func (ms *Mastership) Token() client.Zxid { return ms.run.czxid }

// Resign gives mastership up. It does so also if ctx has ended, waiting two seconds at
// most; if no server answers by then it is seen to in the background. So its errors don't
// mean that one is still master, but for one of the servers', such as client.ErrNoAuth.
//
// It returns recipes.ErrNotHeld if it was called before, and recipes.ErrLost if mastership
// was lost before: then what was done under it may have been done beside somebody else. It
// returns an ambiguous error as Leadership.Resign does.
func (ms *Mastership) Resign(ctx context.Context) error {
	ms.mu.Lock()
	before := ms.resigned
	ms.resigned = true
	ms.mu.Unlock()
	if before {
		return ms.notHeld()
	}
	was := ms.lost()
	first, err := ms.clear(ctx)
	switch {
	case was != nil:
		err = was
	case !first:
		return ms.notHeld() // it has ended with Run or the Campaign
	}
	if err != nil {
		return ms.run.m.failed(ctx, "resign as", err)
	}
	return nil
}

func (ms *Mastership) lost() error { return lost(ms.hold) }

func (ms *Mastership) clear(ctx context.Context) (first bool, err error) {
	ms.mu.Lock()
	before := ms.cleared
	ms.cleared = true
	ms.mu.Unlock()
	if before {
		return false, nil
	}
	ms.quit()
	err = ms.run.withdraw(ctx)
	ms.hold.Stop()
	return true, err
}

// patience is how long to wait for servers when the caller's context has ended.
const patience = 2 * time.Second

// withdraw deletes the run's node if there is one, sooner or later. The error wraps
// recipes.ErrLost if it was known to be there and is gone, and is ambiguous if that is not
// known yet.
func (r *run) withdraw(ctx context.Context) error {
	if r.czxid == 0 && !r.unknown {
		return nil
	}
	if ctx.Err() == nil || r.c.State().Connected() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
	}
	err := r.delete(ctx)
	if errors.Is(err, client.ErrConnectionLoss) || ctx.Err() != nil && err != nil {
		go r.forget()
		return line.InBackground(r.m.path, err)
	}
	return err
}

// forget deletes the node if there is one. It ends with the session at the latest.
func (r *run) forget() {
	for errors.Is(r.delete(context.Background()), client.ErrConnectionLoss) {
	}
}

// delete deletes the run's own node. It does not touch another one.
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
		// Its version is that of the node that follows it, too, maybe. But that one would
		// have to be made between these two requests, though the session goes on.
		err = r.c.Delete(ctx, r.m.path, stat.Version)
		r.unknown = r.unknown || client.IsAmbiguous(err)
		if !client.IsAmbiguous(err) && !errors.Is(err, client.ErrBadVersion) && !errors.Is(err, client.ErrNoNode) {
			return err
		}
	}
}
