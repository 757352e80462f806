package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// untilKnown repeats a change until its outcome is known. The change must be harmless if it
// is done twice. There is no pause: without a connection, the next attempt waits for one.
func untilKnown(ctx context.Context, change func() error) error {
	for {
		err := change()
		if !client.IsAmbiguous(err) && !client.IsRetryable(err) || ctx.Err() != nil {
			return err
		}
	}
}

// bootstrap creates the parent nodes that do not exist yet.
func bootstrap(ctx context.Context, c *client.Client) error {
	for _, path := range layout.Parents() {
		err := untilKnown(ctx, func() error {
			_, err := c.Create(ctx, path, nil, client.CreateOptions{})
			return err
		})
		// An earlier attempt may have created the node before the connection broke.
		if err != nil && !errors.Is(err, client.ErrNodeExists) {
			return fmt.Errorf("make the parent nodes: %w", err)
		}
	}
	return nil
}

// leave closes the session. That removes its ephemeral nodes at once, rather than when
// the session would expire.
func leave(ctx context.Context, c *client.Client) {
	_ = c.Close(context.WithoutCancel(ctx)) // if it fails, the session expires later
}
