package line

import (
	"context"

	"github.com/zkd-project/zkd/client"
)

// Nudge wakes the contenders that watch a node, by writing its data unchanged. It ignores
// errors.
func Nudge(ctx context.Context, c *client.Client, path string) {
	node, err := c.Get(ctx, path)
	if err == nil {
		_, _ = c.Set(ctx, path, node.Data, node.Stat.Version)
	}
}
