package lock

import (
	"context"

	"github.com/zkd-project/zkd/recipes/hold"
)

// Beside does what RLock does for a holder that has not noticed a loss.
func (l *rw) Beside(ctx context.Context, h *hold.Held) (*hold.Held, error) {
	return l.within(h.Context()).beside(ctx)
}
