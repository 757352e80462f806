package main

import (
	"context"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
	"github.com/zkd-project/zkd/examples/masterworker/program"
)

// look returns what is going on. It is not a callback, so it may wait for its
// futures; but only when all have been issued.
func look(ctx context.Context, connect program.Connect) (layout.State, error) {
	end := newEnding()
	c, err := connect(ctx, client.Options{})
	if err != nil {
		return layout.State{}, err
	}
	defer leave(ctx, c)
	ready := make(chan struct{})
	bootstrap(c.Async(), end, func() { close(ready) })
	select {
	case <-ready:
	case err := <-end:
		return layout.State{}, err
	case <-ctx.Done():
		return layout.State{}, context.Cause(ctx)
	}
	for {
		state, err := lookOnce(ctx, c.Async())
		if !passing(err) || ctx.Err() != nil {
			return state, err
		}
	}
}

// lookOnce reads each thing by itself, all of them in one go: thousands take little
// longer than one. Unlike with a MultiRead it is not all of one moment, and no single
// reply is large.
func lookOnce(ctx context.Context, a client.Async) (layout.State, error) {
	workers, err := a.Children(layout.Assign).Wait(ctx)
	if err != nil {
		return layout.State{}, err
	}
	master, tasks, done := a.Get(layout.Master), a.Children(layout.Tasks), a.Children(layout.Status)
	nodes := make([]*client.Future[client.Node], len(workers.Names))
	theirs := make([]*client.Future[client.Listing], len(workers.Names))
	for i, name := range workers.Names {
		nodes[i], theirs[i] = a.Get(layout.Worker(name)), a.Children(layout.Assignments(name))
	}
	results := []client.OpResult{node(ctx, master), listing(ctx, tasks), listing(ctx, done)}
	for i := range workers.Names {
		results = append(results, node(ctx, nodes[i]), listing(ctx, theirs[i]))
	}
	return layout.ReadState(workers.Names, results)
}

func node(ctx context.Context, f *client.Future[client.Node]) client.OpResult {
	n, err := f.Wait(ctx)
	return client.OpResult{Data: n.Data, Stat: n.Stat, Err: err}
}

func listing(ctx context.Context, f *client.Future[client.Listing]) client.OpResult {
	l, err := f.Wait(ctx)
	return client.OpResult{Children: l.Names, Err: err}
}
