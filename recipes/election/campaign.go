package election

import (
	"context"
	"fmt"

	"github.com/zkd-project/zkd/recipes"
)

// Change is what a Campaign reports.
type Change struct {
	State      State
	Mastership *Mastership // if Leading
	Err        error       // why it is Over
}

// Campaign runs for master until it is closed, and reports each change to a function: it
// runs again whenever the master's node is deleted, or its own mastership is lost or
// released.
type Campaign struct {
	m      *Master
	notify func(Change)
	ctx    context.Context // ends with Close
	stop   context.CancelCauseFunc
	done   chan struct{}
}

// Campaign begins to run for master, and returns at once. notify is called with each change,
// in order, in the goroutine of the campaign, which continues when it has returned. The last
// change is to Over: by Close with recipes.ErrClosed, or if trying again cannot help, as with
// RunAgain.
func (m *Master) Campaign(notify func(Change)) *Campaign {
	g := &Campaign{m: m, notify: notify, done: make(chan struct{})}
	g.ctx, g.stop = context.WithCancelCause(context.Background())
	go func() {
		defer close(g.done)
		err := standAgain(g.ctx, m.c, g.standOnce)
		g.stop(err)
		notify(Change{State: Over, Err: fmt.Errorf("run for master %s: %w", m.path, err)})
	}()
	return g
}

// Close ends the campaign, and releases its mastership if it is master. It waits until that
// is done or ctx ends; the rest then happens in the background. It must not be called by
// notify. It is idempotent.
func (g *Campaign) Close(ctx context.Context) error {
	g.stop(recipes.ErrClosed)
	select {
	case <-g.done:
		return nil
	case <-ctx.Done():
		return g.m.failed(ctx, "leave the campaign for", context.Cause(ctx))
	}
}

// standOnce runs until mastership is lost or released, or running fails.
func (g *Campaign) standOnce() error {
	mastership, err := g.m.elect(g.ctx, func(s State) { g.notify(Change{State: s}) })
	if err != nil {
		return err
	}
	if g.ctx.Err() == nil {
		g.notify(Change{State: Leading, Mastership: mastership})
	}
	<-mastership.Context().Done()
	_, err = mastership.tenure.end(g.ctx)
	return err
}
