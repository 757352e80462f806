package doublebarrier

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Barrier is a double barrier. It may be used from any goroutine, also to enter
// several times at once: each is a participant of its own.
type Barrier struct {
	c    *client.Client
	path string
	n    int
	o    Options
}

// Options are what a Barrier can be told. The zero value is good for most.
type Options struct {
	// ACL is that of new nodes; nil is client.OpenACL. Participants must be allowed
	// to read each other's nodes, and to create and delete in the barrier's.
	ACL []client.ACL
	// Name is written into the participant's node, for people who look who is
	// missing. The recipe does not go by it.
	Name string
}

// New returns the double barrier of n participants at path. Nothing is asked of the
// servers yet.
func New(c *client.Client, path string, n int, o Options) (*Barrier, error) {
	if c == nil {
		return nil, fmt.Errorf("double barrier: %w: client is nil", client.ErrBadArguments)
	}
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("double barrier: path: %w", err)
	}
	if n < 1 {
		return nil, fmt.Errorf("double barrier: %w: n is %d, but it takes 1 participant at least", client.ErrBadArguments, n)
	}
	return &Barrier{c: c, path: path, n: n, o: o}, nil
}

// Enter takes part, and waits until n participants do. If ctx ends first, or anything
// else fails, one does not take part, and one's node is gone, or will be; the error
// wraps recipes.ErrLost if the session has ended, and recipes.ErrLayout if there are
// nodes in the way.
//
// If ctx ends at the moment at which the barrier opens the others go through it. They
// find one gone, as if one had failed inside.
func (b *Barrier) Enter(ctx context.Context) (*Inside, error) {
	e := &entry{Barrier: b, c: b.c.Steady()}
	err := e.enter(ctx)
	if err != nil && e.own != "" {
		_ = line.RemoveUnique(ctx, e.c, e.own) // it goes with the session at the latest
	}
	if e.watch != nil {
		line.DropWatch(ctx, e.watch)
	}
	if err != nil {
		return nil, fmt.Errorf("enter double barrier %s: %w", b.path, line.Why(ctx, err))
	}
	return newInside(ctx, e), nil
}
