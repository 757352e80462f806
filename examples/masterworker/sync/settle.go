package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// settle repeats a change until its outcome is known. It is for changes that do no
// harm when they are done twice. There is no pause: while there is no connection the
// next attempt waits for one.
func settle(ctx context.Context, change func() error) error {
	for {
		err := change()
		if !client.IsAmbiguous(err) && !client.IsRetryable(err) || ctx.Err() != nil {
			return err
		}
	}
}

// bootstrap makes the nodes that all share. Whoever comes first makes them.
func bootstrap(ctx context.Context, c *client.Client) error {
	for _, path := range layout.Parents() {
		err := settle(ctx, func() error {
			_, err := c.Create(ctx, path, nil, client.Persistent, nil)
			return err
		})
		// That it exists may be our own doing, if the connection broke. It doesn't matter.
		if err != nil && !errors.Is(err, client.ErrNodeExists) {
			return fmt.Errorf("make the parent nodes: %w", err)
		}
	}
	return nil
}

// leave closes the session. All that was ephemeral is gone then: the others need not
// wait until it expires.
func leave(ctx context.Context, c *client.Client) {
	_ = c.Close(context.WithoutCancel(ctx)) // if it fails, the session ends by itself, later
}
