package barrier

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Options configure a recipe of this package. The zero value is good for most.
type Options struct {
	// ACL is the access list of new nodes; nil means client.OpenACL. Participants must
	// be allowed to read, write and delete each other's nodes.
	ACL []client.ACL
	// Name is written into the node of each participant of a Double, for people who
	// look for the one that is missing.
	Name string
}

// base is the part that all recipes of this package share.
type base struct {
	c    *client.Client
	what string // the recipe's name in errors
	path string
	o    Options
}

func newBase(c *client.Client, what, path string, o Options) (base, error) {
	if c == nil {
		return base{}, fmt.Errorf("%s: %w: client is nil", what, client.ErrBadArguments)
	}
	if err := line.CheckPath(path); err != nil {
		return base{}, fmt.Errorf("%s: path: %w", what, err)
	}
	return base{c, what, path, o}, nil
}

// wrap adds what was being done to an error.
func (b *base) wrap(ctx context.Context, verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %s: %w", verb, b.what, b.path, line.Why(ctx, err))
}
