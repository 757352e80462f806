package doublebarrier

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

// Inside is that one is in the barrier. It may be used from any goroutine, and has one
// of its own until Leave, which has to be called once.
type Inside struct {
	b    *Barrier
	c    *client.Client // for the session of the own node only
	own  string
	hold *line.Hold
	ctx  context.Context
	end  context.CancelFunc
	left atomic.Bool
}

func newInside(ctx context.Context, e *entry) *Inside {
	in := &Inside{b: e.Barrier, c: e.c, own: e.own}
	in.hold = line.NewHold(context.WithoutCancel(ctx), e.c, e.own, line.HoldOptions{Session: e.stat.EphemeralOwner})
	in.ctx, in.end = context.WithCancel(in.hold.Context())
	return in
}

// Context returns a context that ends when one is not inside any more: by Leave, or as
// the session has ended or the node was deleted. Then its cause wraps
// recipes.ErrLost, and the others don't wait for one.
func (in *Inside) Context() context.Context { return in.ctx }

// Leave says that one is done, and waits until all are that were in the barrier when
// it was called. If it fails one has left all the same, but not all the others may
// have: ctx has ended, or one's session (recipes.ErrLost). A second Leave is
// recipes.ErrNotHeld.
func (in *Inside) Leave(ctx context.Context) error {
	if in.left.Swap(true) {
		return fmt.Errorf("leave double barrier %s: %w: it was left before", in.b.path, recipes.ErrNotHeld)
	}
	in.end()
	defer in.hold.Stop() // after the node has gone, which uses its watch up
	d := &departure{Inside: in}
	if err := d.leave(ctx); err != nil {
		_ = line.RemoveUnique(ctx, in.c, in.own) // it goes with the session at the latest
		return fmt.Errorf("leave double barrier %s: %w", in.b.path, line.Why(ctx, err))
	}
	return nil
}

// departure is a Leave under way.
type departure struct {
	*Inside
	ready client.Stat // of "ready" at the beginning
	open  bool        // whether that was there
	party []string    // those to wait for, and ourselves: who was there at the beginning
	since client.Zxid // those that are younger have not been inside then
	gone  bool        // our own node is deleted
}

// leave goes by seeds.md A11: the lowest waits for the highest to go, with its own
// node in place, and the others delete theirs and wait for the lowest to go. So a
// deletion wakes one participant, but for the last one, which wakes all.
func (d *departure) leave(ctx context.Context) error {
	names, err := d.begin(ctx)
	if err != nil {
		return err
	}
	for own := line.Base(d.own); ; {
		rest := d.rest(names)
		switch {
		case len(rest) == 0 || len(rest) == 1 && rest[0] == own:
			return d.last(ctx, len(names) > len(rest))
		case rest[0] == own:
			err = d.wait(ctx, rest[len(rest)-1])
		default:
			err = d.first(ctx, rest[0])
		}
		if err != nil {
			return err
		}
		if names, _, err = participants(ctx, d.c, d.b.path); err != nil {
			return err
		}
	}
}

// begin finds out who is there, as the leader knows it: others than the first n may have
// come in that this server has not heard of yet.
func (d *departure) begin(ctx context.Context) (names []string, err error) {
	if err := d.c.Sync(ctx, d.b.path); err != nil {
		return nil, err
	}
	found, err := d.c.Exists(ctx, line.Join(d.b.path, ready))
	if err != nil {
		return nil, err
	}
	d.ready, d.open = found.Stat, found.Exists
	names, stat, err := participants(ctx, d.c, d.b.path)
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

// rest returns who of the party is there still. Others are not waited for: they may be
// back for the next round already, and wait for us.
func (d *departure) rest(names []string) []string {
	d.party = slices.DeleteFunc(d.party, func(name string) bool { return !slices.Contains(names, name) })
	return d.party
}

// first deletes the own node and waits for the lowest.
func (d *departure) first(ctx context.Context, lowest string) error {
	if !d.gone {
		if err := line.RemoveUnique(ctx, d.c, d.own); err != nil {
			return err
		}
		d.gone = true
	}
	return d.wait(ctx, lowest)
}

// wait waits until a participant has gone, or returns before that: the caller looks.
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

// last ends the round when nobody else is left of the party: with the own node "ready"
// goes, if there are no others for which it may be, and nobody has changed it for them
// meanwhile.
func (d *departure) last(ctx context.Context, others bool) error {
	for d.open && !d.gone && !others {
		_, err := d.c.Multi(ctx, client.DeleteOp(d.own, client.AnyVersion), client.DeleteOp(line.Join(d.b.path, ready), d.ready.Version))
		switch {
		case err == nil:
			return nil
		case errors.Is(err, client.ErrNoNode), errors.Is(err, client.ErrBadVersion):
			others = true // or an attempt before, of which no reply came, has done it
		case !client.IsAmbiguous(err) || ctx.Err() != nil:
			return err
		}
	}
	if d.gone {
		return nil
	}
	return line.RemoveUnique(ctx, d.c, d.own)
}
