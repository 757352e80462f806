package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// MasterState is the progress of a Campaign.
type MasterState int

const (
	// Running means that the master is not known yet.
	Running MasterState = iota
	// NotElected means that another one is master.
	NotElected
	// Elected means that this one is master.
	Elected
	// Over means that the campaign has ended.
	Over
)

// String returns the name in lower case.
func (s MasterState) String() string {
	return [...]string{"running", "not elected", "elected", "over"}[s]
}

// Change is what a Campaign reports.
type Change struct {
	State      MasterState
	Mastership *Mastership // if Elected
	Err        error       // why it is Over
}

// Campaign runs for master with asynchronous calls, as in the ZooKeeper book: each request
// has a callback, which decides by the result what to request next. It runs again whenever
// the master's node is deleted, or its own mastership is lost or released.
//
// It does one thing at a time: either a request is under way, or it waits for an event. So
// nothing needs a lock.
type Campaign struct {
	m      *Master
	notify func(Change)
	ctx    context.Context // ends with Close
	stop   context.CancelCauseFunc
	done   chan struct{}

	run *run // the attempt that is under way
}

// Campaign begins to run for master, and returns at once. notify is called with each change,
// in order, in the goroutine of the client's callbacks or in one of the campaign's, which
// continues when it has returned. The last change is to Over: by Close with
// recipes.ErrClosed, or if trying again cannot help, as with RunAgain.
func (m *Master) Campaign(notify func(Change)) *Campaign {
	g := &Campaign{m: m, notify: notify, done: make(chan struct{})}
	g.ctx, g.stop = context.WithCancelCause(context.Background())
	go g.begin()
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

// begin is the first step, once there is a session to run in.
func (g *Campaign) begin() {
	if err := g.m.c.WaitConnected(g.ctx); err != nil {
		g.end(err)
		return
	}
	g.run = g.m.newRun()
	g.notify(Change{State: Running})
	g.runForMaster()
}

// async returns the asynchronous calls of the attempt's session.
func (g *Campaign) async() client.Async { return g.run.c.Async() }

func (g *Campaign) runForMaster() {
	if !g.closed() {
		g.async().Create(g.m.path, g.run.data, client.CreateOptions{Mode: client.Ephemeral, ACL: g.m.o.ACL, Stat: true}, g.masterCreated)
	}
}

func (g *Campaign) masterCreated(made client.Created, err error) {
	switch {
	case err == nil:
		g.elected(made.Stat)
	case errors.Is(err, client.ErrConnectionLoss):
		g.run.unknown = g.run.unknown || client.IsAmbiguous(err)
		g.checkMaster()
	case errors.Is(err, client.ErrNodeExists):
		g.masterExists()
	case errors.Is(err, client.ErrNoNode):
		go g.makeParent()
	default:
		g.failed(err)
	}
}

// makeParent waits for its calls, as it is rarely needed.
func (g *Campaign) makeParent() {
	if err := settle.Ensure(g.ctx, g.run.c, line.Parent(g.m.path), client.CreateOptions{Mode: client.Container, ACL: g.m.o.ACL}); err != nil {
		g.failed(err)
		return
	}
	g.runForMaster()
}

// checkMaster determines the outcome of a create that was not answered.
func (g *Campaign) checkMaster() {
	if g.closed() {
		return
	}
	// The server may lag behind the one that the create was sent to, but does not any more
	// when it has answered a sync.
	g.async().Sync(g.m.path, func(_ client.None, err error) {
		if err != nil {
			g.masterChecked(client.Node{}, err)
			return
		}
		g.async().Get(g.m.path, g.masterChecked)
	})
}

func (g *Campaign) masterChecked(node client.Node, err error) {
	switch {
	case err == nil:
		g.run.recognise(node.Data, node.Stat)
		g.run.unknown = false
		if g.run.mine(node.Stat) {
			g.elected(node.Stat)
		} else {
			g.masterExists()
		}
	case errors.Is(err, client.ErrConnectionLoss):
		g.checkMaster()
	case errors.Is(err, client.ErrNoNode):
		g.run.unknown = false
		g.runForMaster()
	default:
		g.failed(err)
	}
}

// masterExists watches another one's node.
func (g *Campaign) masterExists() {
	if g.closed() {
		return
	}
	g.notify(Change{State: NotElected})
	g.watchMaster()
}

func (g *Campaign) watchMaster() {
	if !g.closed() {
		g.async().GetW(g.m.path, g.masterWatched)
	}
}

func (g *Campaign) masterWatched(node client.Node, err error) {
	switch {
	case err == nil:
		go g.await(node.Watch)
	case errors.Is(err, client.ErrConnectionLoss):
		g.watchMaster()
	case errors.Is(err, client.ErrNoNode):
		go g.begin()
	default:
		g.failed(err)
	}
}

// await waits for the watch's event.
func (g *Campaign) await(w *client.Watch) {
	event, err := line.Next(g.ctx, w)
	switch {
	case err != nil:
		g.failed(err)
	case event.Type == client.EventDeleted:
		g.begin()
	default:
		g.watchMaster()
	}
}

// elected is master until mastership is lost or released, or the campaign is closed.
func (g *Campaign) elected(stat client.Stat) {
	mastership := g.run.won(g.ctx, stat)
	if g.ctx.Err() == nil {
		g.notify(Change{State: Elected, Mastership: mastership})
	}
	go func() {
		<-mastership.Context().Done()
		_, err := mastership.tenure.end(g.ctx)
		g.next(err)
	}()
}

// failed ends the attempt.
func (g *Campaign) failed(err error) {
	go func() {
		_ = g.run.withdraw(g.ctx)
		g.next(err)
	}()
}

// next begins again if that helps against err, which may be nil, and otherwise ends the
// campaign.
func (g *Campaign) next(err error) {
	if g.ctx.Err() == nil && again(g.ctx, g.m.c, err) {
		g.begin()
		return
	}
	g.end(err)
}

// closed reports whether Close was called, and ends the campaign then.
func (g *Campaign) closed() bool {
	if g.ctx.Err() == nil {
		return false
	}
	g.failed(context.Cause(g.ctx))
	return true
}

func (g *Campaign) end(err error) {
	if cause := context.Cause(g.ctx); cause != nil {
		err = cause
	}
	g.stop(err)
	g.notify(Change{State: Over, Err: fmt.Errorf("run for master %s: %w", g.m.path, err)})
	close(g.done)
}
