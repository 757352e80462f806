package barrier

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
	*Double
	c    *client.Client // from join on bound to the session of the own node
	own  string         // path of the own node; "" before it exists
	stat client.Stat    // of the own node

	// The last look at "ready", and the watch that it set.
	open  bool
	ready client.Stat
	watch *client.Watch
}

// enter looks at "ready" before it joins. So its watch is set when its node appears, and
// the participant that counts n wakes it.
func (e *entry) enter(ctx context.Context) error {
	if err := e.look(ctx); err != nil {
		return err
	}
	if err := e.join(ctx); err != nil {
		return err
	}
	if e.watch.Fired() { // for an opening before our node existed
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
				return nil // even if it is gone again: kazoo deletes it early
			}
		}
		if err := e.look(ctx); err != nil {
			return err
		}
	}
}

// look reads and watches "ready".
func (e *entry) look(ctx context.Context) error {
	if e.watch != nil {
		line.DropWatch(ctx, e.watch)
	}
	found, err := e.c.ExistsW(ctx, line.Join(e.path, ready))
	e.ready, e.open, e.watch = found.Stat, found.Exists, found.Watch
	return err
}

// join creates the own node.
func (e *entry) join(ctx context.Context) error {
	path := line.Join(e.path, line.NewID())
	made, err := settle.CreateInContainer(ctx, e.Double.c, path, []byte(e.o.Name), settle.CreateOptions{Mode: client.Ephemeral, ACL: e.o.ACL, By: settle.ByPath})
	if err == nil {
		e.own, e.stat, e.c = path, made.Stat, e.c.InSession(made.Stat.EphemeralOwner)
	}
	return err
}

// check reports whether the barrier is open to this participant, and opens it if there
// are n. again means that others changed something meanwhile, and that it must look again.
//
// A "ready" that is older than the own node may be left from a round in which all have
// crashed. So only a later change of it lets this participant in.
func (e *entry) check(ctx context.Context) (in, again bool, err error) {
	if e.open && e.ready.Mzxid > e.stat.Czxid {
		return true, false, nil
	}
	names, _, err := e.participants(ctx, e.c)
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

// opened opens the barrier, unless one of those participants is gone at that moment.
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
	case errors.Is(err, client.ErrNoNode), errors.Is(err, client.ErrNodeExists), errors.Is(err, client.ErrBadVersion),
		client.IsAmbiguous(err) && ctx.Err() == nil:
		return false, nil // the next look tells
	}
	return false, err
}
