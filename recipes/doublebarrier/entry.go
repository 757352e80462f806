package doublebarrier

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// entry is an Enter under way.
type entry struct {
	*Barrier
	c    *client.Client // from join on for the session of the own node only
	own  string         // the path of the own node, "" before there is one
	stat client.Stat    // the own node's

	// What the last look at "ready" has shown, and the watch that it has set.
	open  bool
	ready client.Stat
	watch *client.Watch
}

// enter looks before it joins: so the watch is there when the node is, and whoever
// finds that we are enough wakes us (seeds.md A10).
func (e *entry) enter(ctx context.Context) error {
	if err := e.look(ctx); err != nil {
		return err
	}
	if err := e.join(ctx); err != nil {
		return err
	}
	if e.watch.Fired() { // by an opening that was before us, and is no affair of ours
		if err := e.look(ctx); err != nil {
			return err
		}
	}
	for {
		in, again, err := e.check(ctx)
		if in || err != nil {
			return err
		}
		if !again {
			event, err := e.watch.Next(ctx)
			if err != nil {
				return err
			}
			if event.Type == client.EventCreated {
				return nil // also if it is gone again: kazoo deletes it early
			}
		}
		if err := e.look(ctx); err != nil {
			return err
		}
	}
}

// look finds out whether there is a "ready", and watches it.
func (e *entry) look(ctx context.Context) (err error) {
	if e.watch != nil {
		line.DropWatch(ctx, e.watch)
	}
	found, err := e.c.ExistsW(ctx, line.Join(e.path, ready))
	e.ready, e.open, e.watch = found.Stat, found.Exists, found.Watch
	return err
}

// join makes the own node.
func (e *entry) join(ctx context.Context) error {
	path := line.Join(e.path, line.NewID())
	const rounds = 10 // a container may be deleted between being made and being used
	for round := 1; ; round++ {
		made, err := settle.Create(ctx, e.Barrier.c, path, []byte(e.o.Name), settle.CreateOptions{Mode: client.Ephemeral, ACL: e.o.ACL, By: settle.ByPath})
		if err == nil {
			e.own, e.stat, e.c = path, made.Stat, e.c.InSession(made.Stat.EphemeralOwner)
			return nil
		}
		if !errors.Is(err, client.ErrNoNode) || round == rounds {
			return err
		}
		if err := settle.Ensure(ctx, e.Barrier.c, e.path, client.CreateOptions{Mode: client.Container, ACL: e.o.ACL}); err != nil {
			return err
		}
	}
}

// check reports whether the barrier is open to us, and opens it if we are enough.
// again says that this has come to nothing as others were at it, too.
//
// Those are inside who were there when "ready" was last made or changed. So one that is
// older than we are lets us in only once it is changed: it may be of a round that is
// over, and of which nobody is left who would have deleted it.
func (e *entry) check(ctx context.Context) (in, again bool, err error) {
	if e.open && e.ready.Mzxid > e.stat.Czxid {
		return true, false, nil
	}
	names, _, err := participants(ctx, e.c, e.path)
	if err != nil {
		return false, false, err
	}
	if !slices.Contains(names, line.Base(e.own)) {
		return false, false, fmt.Errorf("%w: %s was deleted", recipes.ErrLost, e.own)
	}
	if len(names) < e.n {
		return false, false, nil
	}
	in, err = e.opened(ctx, names)
	return in, !in, err
}

// opened opens the barrier for those participants, unless one of them is gone when
// it comes to that.
func (e *entry) opened(ctx context.Context, names []string) (bool, error) {
	var ops []client.Op
	for _, name := range names {
		ops = append(ops, client.CheckOp(line.Join(e.path, name), client.AnyVersion))
	}
	path := line.Join(e.path, ready)
	if e.open {
		ops = append(ops, client.SetOp(path, nil, e.ready.Version))
	} else {
		ops = append(ops, client.CreateOp(path, nil, client.CreateOptions{ACL: e.o.ACL}))
	}
	_, err := e.c.Multi(ctx, ops...)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, client.ErrNoNode), errors.Is(err, client.ErrNodeExists), errors.Is(err, client.ErrBadVersion):
		return false, nil // somebody has gone, or was faster
	case client.IsAmbiguous(err) && ctx.Err() == nil:
		return false, nil // a look will show
	}
	return false, err
}
