package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Inside is a participant that has passed a Double. It may be used from any goroutine,
// and must be released.
type Inside struct {
	b        *Double
	c        *client.Client // bound to the session of the own node
	own      string
	hold     *line.Hold
	ctx      context.Context
	end      context.CancelFunc
	released atomic.Bool
}

func newInside(ctx context.Context, e *entry) *Inside {
	in := &Inside{b: e.Double, c: e.c, own: e.own}
	in.hold = line.NewHold(context.WithoutCancel(ctx), e.c, e.own, line.HoldOptions{Session: e.stat.EphemeralOwner})
	in.ctx, in.end = context.WithCancel(line.Follow(in.hold.Context(), ctx))
	return in
}

// Context returns a context that ends with Release, when the context of Enter ends, or with
// a cause that wraps recipes.ErrLost when the session has ended or the node was deleted. In
// the last case the others do not wait for this participant.
func (in *Inside) Context() context.Context { return in.ctx }

// Release leaves the barrier, and waits until all have left that were inside when it was
// called. If it fails, this participant has left, but others may be inside: ctx or the
// session (recipes.ErrLost) has ended. A second Release is recipes.ErrNotHeld.
func (in *Inside) Release(ctx context.Context) error {
	if in.released.Swap(true) {
		return in.b.wrap(ctx, "leave", fmt.Errorf("%w: it was released before", recipes.ErrNotHeld))
	}
	in.end()
	defer in.hold.Stop() // after the deletion of the node, which uses up its watch
	d := &departure{Inside: in}
	err := d.leave(ctx)
	if err != nil {
		_ = line.RemoveUnique(ctx, in.c, in.own) // the session deletes it at the latest
	}
	return in.b.wrap(ctx, "leave", err)
}

// departure is a Release under way.
type departure struct {
	*Inside
	ready client.Stat // of "ready" at the beginning
	open  bool        // "ready" existed at the beginning
	party []string    // those present at the beginning that are still there
	since client.Zxid // participants created later were not inside
	gone  bool        // the own node is deleted
}

// leave follows the description in ZooKeeper's "Recipes and Solutions": the lowest
// participant keeps its node and waits for the highest to leave; the others delete their
// nodes and wait for the lowest. So each deletion wakes one participant, and the last one
// wakes all.
func (d *departure) leave(ctx context.Context) error {
	names, err := d.begin(ctx)
	if err != nil {
		return err
	}
	for own := line.Base(d.own); ; {
		// Those that are not of the party wait for the next round, and so for us.
		d.party = slices.DeleteFunc(d.party, func(name string) bool { return !slices.Contains(names, name) })
		switch n := len(d.party); {
		case n == 0 || n == 1 && d.party[0] == own:
			return d.last(ctx, len(names) > n)
		case d.party[0] == own:
			err = d.wait(ctx, d.party[n-1])
		default:
			if err = d.remove(ctx); err == nil {
				err = d.wait(ctx, d.party[0])
			}
		}
		if err != nil {
			return err
		}
		if names, _, err = d.b.participants(ctx, d.c); err != nil {
			return err
		}
	}
}

// begin finds out who is inside. It asks the leader: more than n may have entered, of
// whom this server has not heard.
func (d *departure) begin(ctx context.Context) (names []string, err error) {
	if err := d.c.Sync(ctx, d.b.path); err != nil {
		return nil, err
	}
	found, err := d.c.Exists(ctx, line.Join(d.b.path, ready))
	if err != nil {
		return nil, err
	}
	d.ready, d.open = found.Stat, found.Exists
	names, stat, err := d.b.participants(ctx, d.c)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, line.Base(d.own)) {
		return nil, fmt.Errorf("%w: %s was deleted", recipes.ErrLost, d.own)
	}
	d.party, d.since = slices.Clone(names), stat.Pzxid
	if d.open {
		d.since = d.ready.Mzxid
	}
	return names, nil
}

// remove deletes the own node, once.
func (d *departure) remove(ctx context.Context) error {
	if d.gone {
		return nil
	}
	err := line.RemoveUnique(ctx, d.c, d.own)
	d.gone = err == nil
	return err
}

// wait waits until a participant has gone, but may return earlier.
func (d *departure) wait(ctx context.Context, name string) error {
	node, err := d.c.GetW(ctx, line.Join(d.b.path, name))
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	if node.Stat.Czxid > d.since { // it waits for the next round
		d.party = slices.DeleteFunc(d.party, func(n string) bool { return n == name })
		line.DropWatch(ctx, node.Watch)
		return nil
	}
	_, err = line.Next(ctx, node.Watch)
	return err
}

// last ends the round when the others of the party have left. It deletes "ready" with the
// own node, unless that may be there for others or they have changed it.
func (d *departure) last(ctx context.Context, others bool) error {
	for d.open && !d.gone && !others {
		_, err := d.c.Multi(ctx, client.DeleteOp(d.own, client.AnyVersion), client.DeleteOp(line.Join(d.b.path, ready), d.ready.Version))
		switch {
		case err == nil:
			return nil
		case errors.Is(err, client.ErrNoNode), errors.Is(err, client.ErrBadVersion):
			others = true // or an attempt whose reply was lost has done it
		case !client.IsAmbiguous(err) || ctx.Err() != nil:
			return err
		}
	}
	return d.remove(ctx)
}
