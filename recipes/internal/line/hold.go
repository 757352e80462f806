package line

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
)

// Hold watches an ephemeral node by which the client holds something, and reports when the
// node may have been deleted: it is lost then.
type Hold struct {
	c       *client.Client
	path    string
	session client.SessionID // which the node belongs to
	czxid   client.Zxid      // at which it was created; 0 is any
	reserve time.Duration
	changed func(data []byte)
	end     func(ctx context.Context) error // deletes the node
	ctx     context.Context
	lose    context.CancelCauseFunc
	// watching ends the watch on the node. It outlives ctx until the node is deleted, which
	// fires the watch: otherwise the server would have to be asked to remove it.
	watching context.Context
	unwatch  context.CancelFunc
	watch    sync.WaitGroup // the goroutine that watches the node
	done     chan struct{}
}

// HoldOptions are the options of a Hold.
type HoldOptions struct {
	// Reserve is how long before the session may end the hold counts as lost, while there is
	// no connection.
	Reserve time.Duration
	// Session is the one that the node belongs to. 0 is the client's current one. With
	// client.Options.RenewSession that may be a later one than the node's; the Hold would
	// then not be lost until it reads the node.
	Session client.SessionID
	// Czxid is that of the node. If the node at the path has another one, the hold is lost. 0
	// is for a node whose path is never used again.
	Czxid client.Zxid
	// Changed, if not nil, is called with the node's data whenever they have changed, and may
	// also be called once before that. It runs in a goroutine of the Hold: it must neither
	// block nor call Stop.
	Changed func(data []byte)
}

// Hold begins to watch the place. It does not wait. The Hold also ends with ctx, but must be
// stopped nevertheless.
func (p *Place) Hold(ctx context.Context, o HoldOptions) *Hold {
	o.Session, o.Czxid = p.stat.EphemeralOwner, p.stat.Czxid
	h := NewHold(ctx, p.line.Client, p.path, o)
	h.end = p.end
	return h
}

// NewHold is Place.Hold for any ephemeral node of the client's session.
func NewHold(ctx context.Context, c *client.Client, path string, o HoldOptions) *Hold {
	if o.Session == 0 {
		o.Session = c.Session().ID()
	}
	h := &Hold{c: c.Steady().InSession(o.Session), path: path, session: o.Session, czxid: o.Czxid, reserve: o.Reserve, changed: o.Changed, done: make(chan struct{})}
	h.end = func(ctx context.Context) error { return end(ctx, h.c, path, settle.DeleteOptions{Insist: true}) }
	h.ctx, h.lose = context.WithCancelCause(ctx)
	h.watching, h.unwatch = context.WithCancel(context.WithoutCancel(ctx))
	states := c.Session().States(h.ctx) // subscribes before run reads the state
	go func() {
		defer close(h.done)
		h.lose(h.run(states))
		h.watch.Wait()
	}()
	return h
}

// Context returns a context that ends when the hold is lost, or stopped. Its cause
// wraps recipes.ErrLost in the first case.
func (h *Hold) Context() context.Context { return h.ctx }

// Err returns why the hold is lost or stopped, or nil. It also looks at the clock, as the
// goroutine that ends the context may be late. Once it has returned an error the context has
// ended.
func (h *Hold) Err() error {
	if err := context.Cause(h.ctx); err != nil {
		return err
	}
	deadline := h.deadline(h.c.State()) // if that is a new session's, expired reports it
	switch {
	case h.expired():
		h.lose(h.expiry())
	case time.Now().After(deadline):
		h.lose(h.late())
	}
	return context.Cause(h.ctx)
}

// expired reports whether the node's session has ended.
func (h *Hold) expired() bool {
	now := h.c.Session().ID()
	return now != h.session || h.c.State().Final()
}

func (h *Hold) expiry() error {
	return fmt.Errorf("%w: %s: %w", recipes.ErrLost, h.path, client.ErrSessionExpired)
}

// Stop ends the context and the watch, and leaves the node.
func (h *Hold) Stop() {
	h.lose(context.Canceled)
	h.unwatch()
	<-h.done
}

// Release ends the hold and deletes the node, as Place.Leave does.
func (h *Hold) Release(ctx context.Context) error { return unlessGone(h.End(ctx)) }

// End is Release that reports whether the node existed until the end: if it or its session
// did not exist any more, the error wraps recipes.ErrLost; if no server has answered, it is
// ambiguous.
func (h *Hold) End(ctx context.Context) error {
	h.lose(context.Canceled)
	err := h.end(ctx)
	h.Stop()
	return err
}

// deadline returns until when the node is held if the session is in that state. The reserve
// counts while there is no connection: otherwise the next ping moves the deadline.
func (h *Hold) deadline(state client.State) time.Time {
	if state == client.StateConnected {
		return h.c.Status().Deadline
	}
	return h.c.Status().Deadline.Add(-h.reserve)
}

func (h *Hold) late() error {
	return fmt.Errorf("%w: %s: the connection is down, and the session may have ended", recipes.ErrLost, h.path)
}

// run waits until the hold is lost, and returns why.
func (h *Hold) run(states <-chan client.StateChange) error {
	gone := make(chan error, 1)
	h.watch.Go(func() { gone <- h.watchNode() })
	for state := h.c.State(); ; {
		if state.Final() || h.expired() {
			return h.expiry()
		}
		var limit <-chan time.Time
		if state != client.StateConnected {
			limit = time.After(time.Until(h.deadline(state)))
		}
		select {
		case change, ok := <-states:
			if !ok {
				return context.Cause(h.ctx)
			}
			state = change.To
		case err := <-gone:
			return err
		case <-limit:
			return h.late()
		case <-h.ctx.Done():
			return context.Cause(h.ctx)
		}
	}
}

// watchNode reports changes of the node's data, and returns why the hold is lost.
func (h *Hold) watchNode() error {
	for {
		node, err := h.c.GetW(h.watching, h.path)
		if errors.Is(err, client.ErrNoNode) {
			return h.deleted()
		}
		if err != nil {
			return fmt.Errorf("%w: %s can't be watched: %w", recipes.ErrLost, h.path, err)
		}
		if h.czxid != 0 && node.Stat.Czxid != h.czxid {
			DropWatch(h.watching, node.Watch)
			return h.deleted()
		}
		if h.changed != nil {
			h.changed(node.Data)
		}
		e, err := node.Watch.Next(h.watching)
		if err != nil {
			DropWatch(h.watching, node.Watch)
			return fmt.Errorf("%w: %s is no longer watched: %w", recipes.ErrLost, h.path, err)
		}
		if e.Type == client.EventDeleted {
			return h.deleted()
		}
	}
}

func (h *Hold) deleted() error { return fmt.Errorf("%w: %s was deleted", recipes.ErrLost, h.path) }

// Holds are several nodes that are held together. The context of each was derived from that
// of the one before it, so the last one's ends when any of them is lost.
type Holds []*Hold

func (hs Holds) last() *Hold { return hs[len(hs)-1] }

// Context returns a context that ends when one of the nodes is lost, or all are deleted.
func (hs Holds) Context() context.Context { return hs.last().Context() }

// Err returns why one of the nodes is lost, or nil.
func (hs Holds) Err() error { return hs.last().Err() }

// End deletes the nodes, the last one first: see Hold.End.
func (hs Holds) End(ctx context.Context) error {
	var err error
	for _, h := range slices.Backward(hs) {
		err = errors.Join(err, h.End(ctx))
	}
	return err
}
