package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
	"github.com/zkd-project/zkd/examples/masterworker/program"
)

// master wants to be the master. As long as somebody else is, he stands by. Only
// callbacks touch his state.
type master struct {
	name string
	c    *client.Client
	a    client.Async
	log  *log.Logger
	end  ending

	state masterState
	reign *reign // nil unless leading
}

// masterState is what a master is waiting for.
type masterState int

const (
	campaigning masterState = iota // for the reply that makes him something else
	standingBy                     // for the master to go
	leading                        // for work
)

// runMaster is a master for one session, until ctx ends.
func runMaster(ctx context.Context, connect program.Connect, name string, log *log.Logger) error {
	m := &master{name: name, log: log, end: newEnding()}
	c, err := connect(ctx, client.Options{Watcher: m.event})
	if err != nil {
		return err
	}
	defer leave(ctx, c)
	m.c, m.a = c, c.Async()
	bootstrap(m.a, m.end, m.campaign)
	select {
	case <-ctx.Done():
		return nil
	case err := <-m.end:
		return fmt.Errorf("master %s: %w", name, err)
	}
}

// event is told of all that happens: it is the Watcher.
func (m *master) event(e client.Event) {
	switch {
	case e.Type == client.EventSession:
		m.end.session(e.State)
	case e.Path == layout.Master && m.state != campaigning:
		m.deposed()
	case m.state == leading && e.Path == layout.Workers:
		m.reign.listWorkers()
	case m.state == leading && e.Path == layout.Tasks:
		m.reign.tasksChanged()
	}
}

// deposed begins again after the master has gone, be it somebody else or we.
func (m *master) deposed() {
	if m.state == leading {
		m.log.Printf("%s: is the master no more", m.name)
	}
	m.reign = nil
	m.campaign()
}

// campaign looks who is the master and which epoch it is, at one moment: so if
// /master is ours the epoch is, too. All that is in doubt comes here, as when the
// connection broke while we were creating /master.
func (m *master) campaign() {
	m.state = campaigning
	m.a.MultiRead([]client.Op{client.GetOp(layout.Master), client.GetOp(layout.Epoch)}, func(r []client.OpResult, err error) {
		switch {
		case passing(err):
			m.campaign()
		case err != nil:
			m.end.fail(err)
		case r[1].Err != nil:
			m.end.fail(fmt.Errorf("read %s: %w", layout.Epoch, r[1].Err))
		case errors.Is(r[0].Err, client.ErrNoNode):
			m.create(r[1].Stat.Version)
		case r[0].Err != nil:
			m.end.fail(fmt.Errorf("read %s: %w", layout.Master, r[0].Err))
		case m.ours(r[0].Stat):
			m.lead(r[1].Stat.Version)
		default:
			m.standBy()
		}
	})
}

// ours reports whether /master is of this session. The name would not do: we may
// have been here before, in a session that has not ended yet.
func (m *master) ours(stat client.Stat) bool {
	session, _ := m.c.Session()
	return stat.EphemeralOwner == session
}

// create tries to become the master after an epoch.
func (m *master) create(epoch int32) {
	ops := []client.Op{
		client.CreateOp(layout.Master, []byte(m.name), client.Ephemeral, nil),
		client.SetOp(layout.Epoch, []byte(m.name), epoch),
	}
	m.a.Multi(ops, func(_ []client.OpResult, err error) {
		switch {
		case err == nil:
			m.lead(epoch + 1)
		case passing(err), errors.Is(err, client.ErrNodeExists), errors.Is(err, client.ErrBadVersion):
			m.campaign()
		default:
			m.end.fail(err)
		}
	})
}

// standBy waits until the master has gone.
func (m *master) standBy() {
	m.a.GetW(layout.Master, func(n client.Node, err error) {
		switch {
		case err == nil:
			m.state = standingBy
			m.log.Printf("%s: stands by; the master is %s", m.name, n.Data)
		case errors.Is(err, client.ErrNoNode):
			m.campaign()
		case passing(err):
			m.standBy()
		default:
			m.end.fail(err)
		}
	})
}

// lead begins our reign, if we can be told of its end.
func (m *master) lead(epoch int32) {
	m.a.GetW(layout.Master, func(n client.Node, err error) {
		switch {
		case err == nil && m.ours(n.Stat):
			m.log.Printf("%s: is the master, epoch %d", m.name, epoch)
			m.state, m.reign = leading, &reign{master: m, epoch: epoch}
			m.reign.begin()
		case err == nil, errors.Is(err, client.ErrNoNode):
			m.campaign()
		case passing(err):
			m.lead(epoch)
		default:
			m.end.fail(err)
		}
	})
}
