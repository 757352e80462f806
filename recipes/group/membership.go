package group

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/keepalive"
)

// Membership is being in a group.
type Membership struct {
	group *Group
	id    string
	node  *keepalive.Node
	left  atomic.Bool
}

// ID returns the ID under which the program is in the group.
func (m *Membership) ID() string { return m.id }

// State returns whether the member is there, as others see it: after the end of a
// session it takes a moment to come back.
func (m *Membership) State() keepalive.State { return m.node.State() }

// SetData changes the member's data, and waits until others can see it: see
// keepalive.Node.SetData. In kazoo's layouts members have none.
func (m *Membership) SetData(ctx context.Context, data []byte) error {
	if err := m.hasData(); err != nil {
		return err
	}
	return m.node.SetData(ctx, data)
}

// Post is SetData that doesn't wait.
func (m *Membership) Post(data []byte) error {
	if err := m.hasData(); err != nil {
		return err
	}
	return m.node.Post(data)
}

func (m *Membership) hasData() error {
	if m.group.o.Layout != Named {
		return fmt.Errorf("set data of %s in %s: members have no data in the layout %v", m.id, m.group.path, m.group.o.Layout)
	}
	return nil
}

// Done returns a channel that is closed when the membership has ended: by Leave, or
// because of Err.
func (m *Membership) Done() <-chan struct{} { return m.node.Done() }

// Err returns why the membership has ended: recipes.ErrLost if the session has, and is
// not renewed. See keepalive.Node.Err.
func (m *Membership) Err() error { return m.node.Err() }

// Leave ends the membership. When it returns nil, the member is gone. If ctx ends
// before, that goes on in the background. A second Leave is recipes.ErrNotHeld.
func (m *Membership) Leave(ctx context.Context) error {
	if m.left.Swap(true) {
		return fmt.Errorf("leave %s as %s: %w", m.group.path, m.id, recipes.ErrNotHeld)
	}
	if err := m.node.Close(ctx); err != nil {
		return fmt.Errorf("leave %s as %s: %w", m.group.path, m.id, err)
	}
	return nil
}
