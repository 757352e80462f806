package value

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// mark is an ephemeral node of one's own that is changed together with the value. Its
// version tells afterwards whether that was done. It belongs to one change at a time.
type mark struct {
	path    string
	session client.SessionID
	changes int32 // how many are known to have been made with it: the next version
}

// op is the mark's part in a change: the first one makes the node.
func (k *mark) op(acl []client.ACL) client.Op {
	if k.changes == 0 {
		return client.CreateOp(k.path, nil, client.Ephemeral, acl)
	}
	return client.SetOp(k.path, nil, k.changes-1)
}

// done reports whether the mark's next change has been made, given the node.
func (k *mark) done(stat client.Stat, exists bool) bool { return exists && stat.Version == k.changes }

// marks are those of a Value.
type marks struct {
	c    *client.Client
	path string // of the value
	acl  []client.ACL

	mu     sync.Mutex
	free   []*mark // that exist and have no change under way
	lost   []*mark // with a change of which nobody knows what has become
	closed bool
}

func (m *marks) isClosed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// take returns a mark of that session which nobody else uses.
func (m *marks) take(session client.SessionID) *mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = slices.DeleteFunc(m.free, func(k *mark) bool { return k.session != session })
	m.lost = slices.DeleteFunc(m.lost, func(k *mark) bool { return k.session != session })
	if n := len(m.free); n > 0 {
		k := m.free[n-1]
		m.free = m.free[:n-1]
		return k
	}
	return m.fresh(session)
}

// fresh returns a mark that does not exist yet.
func (m *marks) fresh(session client.SessionID) *mark {
	return &mark{path: m.path + "/_c_" + line.NewID() + "-mark", session: session}
}

// give returns a mark. If the marks are closed meanwhile it is deleted.
func (m *marks) give(ctx context.Context, k *mark, doubtful bool) {
	m.mu.Lock()
	closed := m.closed
	switch {
	case closed:
	case doubtful:
		m.lost = append(m.lost, k)
	case k.changes > 0:
		m.free = append(m.free, k)
	}
	m.mu.Unlock()
	if closed && (doubtful || k.changes > 0) {
		_ = m.remove(ctx, k) // it goes on in the background, or with the session
	}
}

// write changes the value together with a mark.
func (m *marks) write(ctx context.Context, data []byte, old client.Stat) (client.Stat, error) {
	c, session, err := bind(ctx, m.c)
	if err != nil {
		return client.Stat{}, err
	}
	k := m.take(session)
	for round := 1; ; round++ {
		results, err := c.Multi(ctx, client.SetOp(m.path, data, old.Version), k.op(m.acl))
		switch {
		case err == nil:
			k.changes++
			m.give(ctx, k, false)
			return results[0].Stat, nil
		case disturbed(err) && round < rounds:
			k = m.fresh(session)
			continue
		case !client.IsAmbiguous(err):
			m.give(ctx, k, false)
			return client.Stat{}, err
		}
		seen, exists, lookErr := m.look(ctx, c, k)
		switch {
		case lookErr != nil:
			m.give(ctx, k, true)
			return client.Stat{}, line.InDoubt(err, lookErr)
		case k.done(seen, exists):
			k.changes++
			m.give(ctx, k, false)
			return after(old, seen, len(data)), nil
		case round == rounds:
			m.give(ctx, k, false)
			return client.Stat{}, line.Settled(err, nil)
		}
	}
}

// look returns the mark's node, as it is after all that the session has asked for.
func (m *marks) look(ctx context.Context, c *client.Client, k *mark) (client.Stat, bool, error) {
	if err := c.Sync(ctx, k.path); err != nil {
		return client.Stat{}, false, err
	}
	return c.Exists(ctx, k.path)
}

// disturbed reports whether a change failed because somebody has deleted or changed the
// mark.
func disturbed(err error) bool {
	failed, ok := errors.AsType[*client.MultiError](err)
	return ok && failed.Index == 1 && !errors.Is(err, client.ErrNoAuth) && !errors.Is(err, client.ErrInvalidACL) &&
		!errors.Is(err, client.ErrNoChildrenForEphemerals)
}

// after returns the value's Stat behind a change whose reply was lost: the mark was
// changed at the same moment.
func after(old, mark client.Stat, size int) client.Stat {
	old.Version++
	old.Mzxid, old.Mtime, old.DataLength = mark.Mzxid, mark.Mtime, int32(size)
	return old
}

// close deletes the marks that no change uses; the others see to it themselves.
func (m *marks) close(ctx context.Context) error {
	m.mu.Lock()
	all := slices.Concat(m.free, m.lost)
	m.free, m.lost, m.closed = nil, nil, true
	m.mu.Unlock()
	var errs []error
	for _, k := range all {
		errs = append(errs, m.remove(ctx, k))
	}
	return errors.Join(errs...)
}

// remove has a mark deleted, sooner or later.
func (m *marks) remove(ctx context.Context, k *mark) error {
	err := m.c.InSession(k.session).DeleteUnique(ctx, k.path)
	over := []error{client.ErrNoNode, client.ErrSessionExpired, client.ErrClosed, client.ErrConnectionLoss, context.Canceled, context.DeadlineExceeded}
	if slices.ContainsFunc(over, func(e error) bool { return errors.Is(err, e) }) {
		return nil // it is gone, or will be
	}
	return err
}
