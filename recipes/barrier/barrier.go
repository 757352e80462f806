package barrier

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Barrier is in place while its node exists. It may be used from any goroutine.
type Barrier struct{ base }

// New returns the barrier at path. It sends no request.
func New(c *client.Client, path string, o Options) (*Barrier, error) {
	b, err := newBase(c, "barrier", path, o)
	if err != nil {
		return nil, err
	}
	return &Barrier{b}, nil
}

// Set puts the barrier in place. It is not an error if it is already. If the reply is lost
// and somebody removes the barrier before Set has looked for it, Set puts it in place again.
func (b *Barrier) Set(ctx context.Context) error {
	_, err := settle.CreateInContainer(ctx, b.c, b.path, nil, settle.CreateOptions{ACL: b.o.ACL})
	if errors.Is(err, client.ErrNodeExists) {
		return nil
	}
	return b.wrap(ctx, "set", err)
}

// Remove removes the barrier that is in place when it is called, which releases all that
// wait, and never one that is set later. It is not an error if there is none. If the node
// has children, it stays and the error wraps recipes.ErrLayout.
func (b *Barrier) Remove(ctx context.Context) error {
	if err := b.c.Steady().Sync(ctx, b.path); err != nil { // the server may not know of it yet
		return b.wrap(ctx, "remove", err)
	}
	err := settle.Delete(ctx, b.c, b.path, client.AnyVersion, settle.DeleteOptions{})
	switch {
	case errors.Is(err, client.ErrNoNode):
		return nil
	case errors.Is(err, client.ErrNotEmpty):
		err = b.intruder(ctx)
	}
	return b.wrap(ctx, "remove", err)
}

// intruder returns the error for a barrier whose node has children. It names one of them
// if it may read them.
func (b *Barrier) intruder(ctx context.Context) error {
	child := "children"
	if list, err := b.c.Steady().Children(ctx, b.path); err == nil && len(list.Names) > 0 {
		child = fmt.Sprintf("a child %q", list.Names[0])
	}
	return fmt.Errorf("%w: it has %s; delete that, or use another path", recipes.ErrLayout, child)
}

// Present reports whether the barrier is in place.
func (b *Barrier) Present(ctx context.Context) (bool, error) {
	c := b.c.Steady()
	if err := c.Sync(ctx, b.path); err != nil {
		return false, b.wrap(ctx, "look at", err)
	}
	found, err := c.Exists(ctx, b.path)
	return found.Exists, b.wrap(ctx, "look at", err)
}

// Wait waits until the barrier is not in place.
func (b *Barrier) Wait(ctx context.Context) error {
	return b.wrap(ctx, "wait for", b.wait(ctx))
}

// wait reads the node, because a watch that an exists request sets would stay on a node
// that is gone.
func (b *Barrier) wait(ctx context.Context) error {
	c := b.c.Steady()
	if err := c.Sync(ctx, b.path); err != nil { // the server may not know of it yet
		return err
	}
	for {
		node, err := c.GetW(ctx, b.path)
		if errors.Is(err, client.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := line.Next(ctx, node.Watch); err != nil {
			return err
		}
	}
}
