package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Held is a lock that one has, until Unlock or until it is lost.
type Held struct {
	*holding
	mu       sync.Mutex
	unlocked bool
}

// holding is a place that is the first in the line. With a Reentrant lock it has
// several Helds.
type holding struct {
	m     *Mutex
	place *line.Place
	hold  *line.Hold
	quiet func() bool // takes back that the listener is told of a loss

	counting sync.Mutex
	count    int // of the Helds that are not unlocked
}

// inside is the key of the holding of a lock among the values of its context.
type inside struct{ m *Mutex }

// innermost is the key of the Held of the lock that was had last.
type innermost struct{}

// FromContext returns what is held of the Mutex that ctx belongs to, as the context of
// With's function does: for its Token and Guard. Of several it is the innermost one. It is
// unlocked by whoever has locked it.
func FromContext(ctx context.Context) (h *Held, ok bool) {
	h, ok = ctx.Value(innermost{}).(*Held)
	return h, ok
}

// hold makes what one has of a place that is the first.
func (m *Mutex) hold(ctx context.Context, place *line.Place) *Held {
	g := &holding{m: m, place: place, count: 1, quiet: func() bool { return true }}
	h := &Held{holding: g}
	ctx = context.WithValue(context.WithoutCancel(ctx), inside{m}, g)
	ctx = context.WithValue(ctx, innermost{}, h)
	g.hold = place.Hold(ctx, line.HoldOptions{Reserve: m.o.Reserve})
	if l := m.o.Listener; l != nil {
		l.Acquired(h)
		g.quiet = context.AfterFunc(g.hold.Context(), func() { l.Lost(h, context.Cause(g.hold.Context())) })
	}
	return h
}

// again returns the lock once more if ctx descends from that of one who holds it.
func (m *Mutex) again(ctx context.Context) (*Held, error) {
	g, ok := ctx.Value(inside{m}).(*holding)
	if !ok {
		return nil, nil
	}
	if err := context.Cause(ctx); err != nil {
		return nil, m.failed(ctx, err)
	}
	g.counting.Lock()
	defer g.counting.Unlock()
	switch err := g.hold.Err(); {
	case g.count == 0:
		return nil, nil // it has been unlocked; the context is no longer about it
	case err != nil:
		return nil, m.failed(ctx, err)
	case !m.o.Reentrant:
		return nil, m.failed(ctx, errors.New("the caller holds it already, and would wait for itself: unlock it before, or set Options.Reentrant"))
	}
	g.count++
	return &Held{holding: g}, nil
}

// Context returns a context that ends when the lock is lost, with a cause that wraps
// recipes.ErrLost, or unlocked. It has the values of the context that Lock was given.
func (g *holding) Context() context.Context { return g.hold.Context() }

// Token returns a number that is larger than those of all that held the lock before:
// the zxid at which its node was created. See the package's documentation on fencing.
func (g *holding) Token() client.Zxid { return g.place.Token() }

// Path returns the path of the node that stands for the lock.
func (g *holding) Path() string { return g.place.Path() }

// Guard returns the operations with a check before them that the lock is held. A Multi of
// them, by the client that the lock was made with, is done as one, or not at all and
// with client.ErrNoNode of Path if the lock is lost. The results have one more at the
// beginning.
func (g *holding) Guard(ops ...client.Op) []client.Op { return g.place.Guard(ops...) }

// Err returns nil while the lock is held. It looks at the clock, too, which Context does
// not if the process was stopped for a while: so ask before what must not be done twice.
// It returns recipes.ErrNotHeld after Unlock.
func (h *Held) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unlocked {
		return h.notHeld()
	}
	return h.hold.Err()
}

// Unlock gives the lock up. It does so also if ctx has ended, waiting two seconds at
// most; if no server answers by then it is seen to in the background. So its errors don't
// mean that the lock is still held, but for one of the servers', such as
// client.ErrNoAuth.
//
// It returns recipes.ErrNotHeld if it was called before, and recipes.ErrLost if the lock
// was lost before: then what was done under it may have been done beside somebody else. If
// no server has answered, client.IsAmbiguous says so of the error: by the clock the lock was
// held until now, but somebody may have broken it while the connection was down. Nil is
// that it was held to the end, unless the connection broke just then, and somebody broke the
// lock meanwhile: nobody can tell that from one's own deletion of the node.
func (h *Held) Unlock(ctx context.Context) error {
	h.mu.Lock()
	before := h.unlocked
	h.unlocked = true
	h.mu.Unlock()
	if before {
		return h.notHeld()
	}
	if h.another() {
		return h.hold.Err()
	}
	return h.release(ctx, h)
}

func (h *Held) notHeld() error {
	return fmt.Errorf("unlock %s: %w: it has been unlocked before", h.m.Path(), recipes.ErrNotHeld)
}

// another takes one Held away and reports whether there are more.
func (g *holding) another() bool {
	g.counting.Lock()
	defer g.counting.Unlock()
	g.count--
	return g.count > 0
}

// release gives the place up, of which h was the last.
func (g *holding) release(ctx context.Context, h *Held) error {
	lost := g.hold.Err()
	untold := g.quiet()
	err := g.hold.End(ctx)
	if lost == nil && errors.Is(err, recipes.ErrLost) {
		lost = err
	}
	if l := g.m.o.Listener; l != nil && untold {
		if lost != nil {
			l.Lost(h, lost)
		} else {
			l.Released(h)
		}
	}
	if err == nil {
		err = lost
	}
	if err != nil {
		return fmt.Errorf("unlock %s: %w", g.m.Path(), err)
	}
	return nil
}
