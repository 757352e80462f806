package subtree

import (
	"context"
	"time"

	"github.com/zkd-project/zkd/client"
)

// grace returns a context that outlives ctx, for a change that should be completed.
func grace(ctx context.Context, c *client.Client) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(c.Status().Timeout, cancel)
		context.AfterFunc(limited, func() { timer.Stop() })
	})
	return limited, func() { stop(); cancel() }
}
