package main

import (
	"context"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// look returns the state of the system at one moment.
func look(ctx context.Context, connect Connect) (layout.State, error) {
	c, err := connect(ctx, client.Options{})
	if err != nil {
		return layout.State{}, err
	}
	defer leave(ctx, c)
	c = c.Steady()
	if err := bootstrap(ctx, c); err != nil {
		return layout.State{}, err
	}
	workers, err := c.Children(ctx, layout.Assign)
	if err != nil {
		return layout.State{}, err
	}
	results, err := c.MultiRead(ctx, layout.StateOps(workers.Names)...)
	if err != nil {
		return layout.State{}, err
	}
	return layout.ReadState(workers.Names, results)
}
