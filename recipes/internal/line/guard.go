package line

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
)

// Guard does the operations as one change if the place exists when the servers come
// to it, and fails with recipes.ErrLost and without having done any if not. The
// results are those of ops. It is done once: an error may be ambiguous.
func (p *Place) Guard(ctx context.Context, ops ...client.Op) ([]client.OpResult, error) {
	c := p.line.Client.InSession(p.stat.EphemeralOwner)
	results, err := c.Multi(ctx, append([]client.Op{client.CheckOp(p.path, client.AnyVersion)}, ops...)...)
	if failed, ok := errors.AsType[*client.MultiError](err); ok && failed.Index == 0 {
		return nil, fmt.Errorf("%w: %s: %w", recipes.ErrLost, p.path, err)
	}
	if len(results) > 0 {
		results = results[1:]
	}
	return results, lost(err)
}
