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

// master wants to be the master. As long as somebody else is, he stands by.
type master struct {
	name string
	c    *client.Client
	log  *log.Logger
}

// runMaster is a master for one session, until ctx ends.
func runMaster(ctx context.Context, connect program.Connect, name string, log *log.Logger) error {
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

// run returns why the session or the context has ended.
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

// campaign returns when we are the master, and since which epoch.
//
// It always begins with a look. That is what makes it right when the connection
// breaks as we create /master: the look finds out whether that was done, and nothing
// has to be remembered.
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
			client.CreateOp(layout.Master, []byte(m.name), client.Ephemeral, nil),
			client.SetOp(layout.Epoch, []byte(m.name), found.epoch))
		switch {
		case err == nil:
			return found.epoch + 1, nil
		case errors.Is(err, client.ErrNodeExists), errors.Is(err, client.ErrBadVersion):
			// Somebody was quicker; or we were, before the connection broke.
		case client.IsAmbiguous(err), client.IsRetryable(err):
			// We may be the master and not know it.
		default:
			return 0, err
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
}

// mastership is who is the master at a moment.
type mastership struct {
	exists, ours bool
	epoch        int32
}

// look reads both nodes at one moment: so if /master is ours the epoch is, too.
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
	// The name would not do: we may have been here before, in a session that has not
	// ended yet.
	session, _ := m.c.Session()
	return mastership{exists: true, ours: node.Stat.EphemeralOwner == session, epoch: epoch.Stat.Version}, nil
}

// standBy returns when the master has changed, or never was.
func (m *master) standBy(ctx context.Context) error {
	name, _, watch, err := m.c.GetW(ctx, layout.Master)
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	m.log.Printf("%s: stands by; the master is %s", m.name, name)
	_, err = watch.Next(ctx)
	return err
}
