package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Double is a double barrier: n participants begin together and end together. It may be
// used from any goroutine; each Enter is another participant.
type Double struct {
	base
	n int
}

// NewDouble returns the double barrier of n participants at path. It sends no request.
func NewDouble(c *client.Client, path string, n int, o Options) (*Double, error) {
	b, err := newBase(c, "double barrier", path, o)
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("double barrier: %w: n is %d, but it takes 1 participant at least", client.ErrBadArguments, n)
	}
	return &Double{b, n}, nil
}

// Enter adds a participant and waits until there are n. If it fails, the participant's
// node is deleted, at once or in the background; the error wraps recipes.ErrLost if the
// session has ended, and recipes.ErrLayout if there are nodes in the way.
//
// If ctx ends while the barrier opens, the others pass, as if this participant had failed
// inside.
func (b *Double) Enter(ctx context.Context) (*Inside, error) {
	e := &entry{Double: b, c: b.c.Steady()}
	err := e.enter(ctx)
	if err != nil && e.own != "" {
		_ = line.RemoveUnique(ctx, e.c, e.own) // the session deletes it at the latest
	}
	if e.watch != nil {
		line.DropWatch(ctx, e.watch)
	}
	if err != nil {
		return nil, b.wrap(ctx, "enter", err)
	}
	return newInside(ctx, e), nil
}

// ready is the name of the node that exists while the barrier is open.
const ready = "ready"

// participants returns the sorted names of the participants' nodes, and the Stat of the
// barrier's. There are none if that does not exist.
func (b *Double) participants(ctx context.Context, c *client.Client) ([]string, client.Stat, error) {
	list, err := c.Children(ctx, b.path)
	if errors.Is(err, client.ErrNoNode) {
		return nil, list.Stat, nil
	}
	if err != nil {
		return nil, list.Stat, err
	}
	names := slices.DeleteFunc(list.Names, func(name string) bool { return name == ready })
	for _, name := range names {
		if !isUUID(name) {
			return nil, list.Stat, fmt.Errorf("%w: %s has a child %q; delete it, or use another path", recipes.ErrLayout, b.path, name)
		}
	}
	slices.Sort(names)
	return names, list.Stat, nil
}

// isUUID reports whether a name is a UUID, with hyphens as this package and Curator write
// it, or without, as kazoo does.
func isUUID(name string) bool {
	const digits = 32
	hex := strings.ReplaceAll(name, "-", "")
	return len(hex) == digits && (len(name) == digits || strings.Count(name, "-") == 4) &&
		strings.Trim(hex, "0123456789abcdef") == ""
}
