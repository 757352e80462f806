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
type Barrier struct {
	c    *client.Client
	path string
	acl  []client.ACL
}

// Options are what a Barrier can be told. The zero value is good for most.
type Options struct {
	// ACL is that of new nodes; nil is client.OpenACL.
	ACL []client.ACL
}

// New returns the barrier at path. Nothing is asked of the servers yet.
func New(c *client.Client, path string, o Options) (*Barrier, error) {
	if c == nil {
		return nil, fmt.Errorf("barrier: %w: client is nil", client.ErrBadArguments)
	}
	if err := line.CheckPath(path); err != nil {
		return nil, fmt.Errorf("barrier: path: %w", err)
	}
	return &Barrier{c: c, path: path, acl: o.ACL}, nil
}

// Set puts the barrier in place. There is no error if it is already.
func (b *Barrier) Set(ctx context.Context) error {
	const rounds = 10 // a container may be deleted between being made and being used
	for round := 1; ; round++ {
		_, err := settle.Create(ctx, b.c, b.path, nil, settle.CreateOptions{ACL: b.acl})
		switch {
		case errors.Is(err, client.ErrNodeExists):
			return nil
		case !errors.Is(err, client.ErrNoNode) || round == rounds:
			return b.wrap(ctx, "set", err)
		}
		if err := settle.Ensure(ctx, b.c, line.Parent(b.path), client.CreateOptions{Mode: client.Container, ACL: b.acl}); err != nil {
			return b.wrap(ctx, "set", err)
		}
	}
}

// Remove removes the barrier: who waits goes on. There is no error if there is none.
// If its node has children the error wraps recipes.ErrLayout, and it stays.
func (b *Barrier) Remove(ctx context.Context) error {
	if err := b.c.Steady().Sync(ctx, b.path); err != nil { // else the server may not know of it yet
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

// intruder is the error of a barrier whose node has children. It names one, if it may.
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

// wait reads the node instead of asking whether it exists: that would leave a watch
// behind on a node that is gone.
func (b *Barrier) wait(ctx context.Context) error {
	c := b.c.Steady()
	if err := c.Sync(ctx, b.path); err != nil { // else the server may not know of it yet
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

func (b *Barrier) wrap(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s barrier %s: %w", what, b.path, line.Why(ctx, err))
}
