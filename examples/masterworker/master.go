package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/examples/masterworker/layout"
)

// master is a candidate: it stands by while another program is the master.
type master struct {
	name string
	c    *client.Client
	log  *log.Logger
}

// runMaster runs a master for one session, until ctx ends.
func runMaster(ctx context.Context, connect Connect, name string, log *log.Logger) error {
	c, err := connect(ctx, client.Options{})
	if err != nil {
		return err
	}
	defer leave(ctx, c)
	m := &master{name: name, c: c.Steady(), log: log}
	if err := m.run(ctx); ctx.Err() == nil {
		return fmt.Errorf("master %s: %w", name, err)
	}
	return nil
}

// run returns the error that ended the session, or the cause of ctx.
func (m *master) run(ctx context.Context) error {
	if err := bootstrap(ctx, m.c); err != nil {
		return err
	}
	for {
		epoch, err := m.campaign(ctx)
		if err != nil {
			return err
		}
		m.log.Printf("%s: is the master, epoch %d", m.name, epoch)
		r := &reign{master: m, epoch: epoch}
		if err := r.run(ctx); !errors.Is(err, errDeposed) {
			return err
		}
		m.log.Printf("%s: is the master no more", m.name)
	}
}

// campaign returns when this program is the master, with the epoch in which it is.
//
// Each attempt begins with a look at /master. That is what makes it correct when the
// connection breaks under the create of /master: the look finds out whether the create
// was done, and nothing has to be remembered.
func (m *master) campaign(ctx context.Context) (epoch int32, err error) {
	for {
		found, err := m.look(ctx)
		if err != nil {
			return 0, err
		}
		switch {
		case found.ours:
			return found.epoch, nil
		case found.exists:
			if err := m.standBy(ctx); err != nil {
				return 0, err
			}
			continue
		}
		_, err = m.c.Multi(ctx,
			client.CreateOp(layout.Master, []byte(m.name), client.CreateOptions{Mode: client.Ephemeral}),
			client.SetOp(layout.Epoch, []byte(m.name), found.epoch))
		switch {
		case err == nil:
			return found.epoch + 1, nil
		case errors.Is(err, client.ErrNodeExists), errors.Is(err, client.ErrBadVersion):
			// Another program was faster; or this one, before the connection broke.
		case client.IsAmbiguous(err), client.IsRetryable(err):
			// This program may be the master without knowing it.
		default:
			return 0, err
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
}

// mastership says which program is the master at one moment.
type mastership struct {
	exists, ours bool
	epoch        int32
}

// look reads both nodes at one moment, so if /master is ours then so is the epoch.
func (m *master) look(ctx context.Context) (mastership, error) {
	results, err := m.c.MultiRead(ctx, client.GetOp(layout.Master), client.GetOp(layout.Epoch))
	if err != nil {
		return mastership{}, err
	}
	node, epoch := results[0], results[1]
	if epoch.Err != nil {
		return mastership{}, fmt.Errorf("read %s: %w", layout.Epoch, epoch.Err)
	}
	if errors.Is(node.Err, client.ErrNoNode) {
		return mastership{epoch: epoch.Stat.Version}, nil
	}
	if node.Err != nil {
		return mastership{}, fmt.Errorf("read %s: %w", layout.Master, node.Err)
	}
	// The name is not enough: it may be that of an earlier session of this program
	// which has not expired yet.
	session := m.c.Session().ID()
	return mastership{exists: true, ours: node.Stat.EphemeralOwner == session, epoch: epoch.Stat.Version}, nil
}

// standBy returns when the master has changed, or if there is none.
func (m *master) standBy(ctx context.Context) error {
	node, err := m.c.GetW(ctx, layout.Master)
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	m.log.Printf("%s: stands by; the master is %s", m.name, node.Data)
	_, err = node.Watch.Next(ctx)
	return err
}
