package line

import (
	"context"

	"github.com/zkd-project/zkd/client"
)

// Nudge has whoever waits for a node look again, as the data are what it watches: it
// writes them as they are. What can't be written is left alone.
func Nudge(ctx context.Context, c *client.Client, path string) {
	node, err := c.Get(ctx, path)
	if err == nil {
		_, _ = c.Set(ctx, path, node.Data, node.Stat.Version)
	}
}
