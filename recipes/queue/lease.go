package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Lease is the right to work on an item of a Leased queue. It may be used from any
// goroutine.
type Lease struct {
	q       *Leased
	entry   string // the item's path
	taken   string // path of the claim's node
	version int32  // of the item, which the claim has set
	data    []byte
	token   client.Zxid
	c       *client.Client // bound to the session of the claim
	hold    *line.Hold
	ctx     context.Context
	cancel  context.CancelCauseFunc

	turn   permit
	over   bool // guarded by turn, as unsure is
	unsure bool // whether an Ack or a Release may have been done
	once   sync.Once
}

// Data returns the item's data.
func (l *Lease) Data() []byte { return l.data }

// Attempt returns how often the item has been handed out, this time included, but not by
// kazoo.
func (l *Lease) Attempt() int { return int(l.version) }

// Context returns a context that ends when the lease does, and when the context of Take ends.
// Its cause wraps recipes.ErrLost if it is lost: then another consumer may have the item.
func (l *Lease) Context() context.Context { return l.ctx }

// Token returns a number that is larger than those of all earlier leases, of any item of any
// queue. What the work changes should refuse lower ones.
func (l *Lease) Token() client.Zxid { return l.token }

// Ack takes the item out of the queue: the work is done. The lease's context ends before
// that. If the lease had ended, nothing is done and the error wraps recipes.ErrNotHeld; if
// that can't be known, ErrUnknown. After other errors it may be called again.
func (l *Lease) Ack(ctx context.Context) error {
	return l.end(ctx, client.DeleteOp(l.entry, l.version))
}

// Release gives the item back: it is available again, at its old position. Its errors are
// those of Ack. Both also work when ctx has ended, and then wait two seconds at most.
func (l *Lease) Release(ctx context.Context) error {
	return l.end(ctx, client.CheckOp(l.entry, l.version))
}

// end does op, which fails if the item was claimed again, and deletes the claim's node.
func (l *Lease) end(ctx context.Context, op client.Op) error {
	ctx, cancel := grace(ctx, l.c)
	defer cancel()
	if err := l.turn.get(ctx); err != nil {
		return err
	}
	defer l.turn.put()
	if l.over {
		return fmt.Errorf("%w: %s has been given back", recipes.ErrNotHeld, l.entry)
	}
	l.cancel(context.Canceled)
	for {
		_, err := l.c.Multi(ctx, op, client.DeleteOp(l.taken, claimed))
		gone := line.FailedOp(err) >= 0 && (errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrBadVersion))
		switch {
		case err == nil, gone && l.unsure: // only this session can have done it
			<-l.hold.Context().Done()
			l.finish()
			return nil
		case client.IsAmbiguous(err):
			l.unsure = true
			if _, lookErr := l.c.Exists(ctx, l.taken); lookErr != nil {
				return l.failed(lookErr)
			}
		default:
			return l.failed(err)
		}
	}
}

// failed returns the error of an Ack or a Release.
func (l *Lease) failed(err error) error {
	lost := errors.Is(err, client.ErrNoNode) || errors.Is(err, client.ErrBadVersion) || errors.Is(err, client.ErrSessionExpired)
	if lost {
		l.finish()
	}
	if lost && !l.unsure {
		return fmt.Errorf("%w: %w: %w", recipes.ErrNotHeld, recipes.ErrLost, err)
	}
	if l.unsure {
		return unknown(l.entry, err)
	}
	return err
}

// finish ends the watch over the claim.
func (l *Lease) finish() {
	l.over = true
	l.stop()
}

func (l *Lease) stop() {
	l.once.Do(func() {
		l.cancel(context.Canceled)
		l.hold.Stop()
		l.q.forget(l)
	})
}
