package semaphore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Contender is a lease that somebody holds or waits for, or somebody who waits in the
// line for his turn to take one.
type Contender struct {
	// Path of the node that stands for it, which is its own for ever.
	Path string
	// Holds is whether it is a lease that is held.
	Holds bool
	// Data say who it is.
	Data []byte
	// Session that the node belongs to.
	Session client.SessionID
	// Since when it is there, by the clock of the servers.
	Since time.Time
	// Token is that of the lease, if it is one.
	Token client.Zxid
}

// Contenders returns the leases that are held, in the order in which they were taken, then
// those that somebody waits for, and then who else is in the line. Those that go meanwhile
// are left out.
func (s *Semaphore) Contenders(ctx context.Context) ([]Contender, error) {
	limit, err := s.limit(ctx)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	all, err := s.describe(ctx, s.leases)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	waits := make(map[client.SessionID]bool)
	for i := range all {
		all[i].Holds = i < limit
		if !all[i].Holds {
			waits[all[i].Session] = true
		}
	}
	waiting, err := s.describe(ctx, s.locks)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	if len(waiting) > 0 && waits[waiting[0].Session] {
		waiting = waiting[1:] // its lease, or leases, are among the others
	}
	return append(all, waiting...), nil
}

func (s *Semaphore) describe(ctx context.Context, l *line.Line) ([]Contender, error) {
	entries, err := l.List(ctx)
	if err != nil {
		return nil, err
	}
	var all []Contender
	for _, e := range entries {
		path := line.Join(l.Path, e.Name)
		node, err := s.c.Get(ctx, path)
		if errors.Is(err, client.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, contender(path, node.Data, node.Stat))
	}
	return all, nil
}

func contender(path string, data []byte, stat client.Stat) Contender {
	return Contender{Path: path, Data: data, Session: stat.EphemeralOwner, Since: time.UnixMilli(stat.Ctime), Token: stat.Czxid}
}

// Break takes a lease, or the place in the line, from a contender that Contenders has
// returned, by deleting its node, which is its own for ever: client.ErrNoNode if it has
// gone by itself. The contender's session lives on. If it holds the lease it is told that
// it is lost, provided that it watches its node as Lease does; who waits in the line is, too,
// unless the ACL forbids to write the data of the one before it anew, which it watches.
// Break returns the contender as it was when its node was deleted.
func (s *Semaphore) Break(ctx context.Context, who Contender) (Contender, error) {
	if err := s.ours(who); err != nil {
		return Contender{}, err
	}
	node, err := s.c.Get(ctx, who.Path)
	var waiting []line.Entry
	if err == nil {
		waiting, err = s.locks.List(ctx)
	}
	if err == nil {
		err = settle.Delete(ctx, s.c, who.Path, client.AnyVersion, settle.DeleteOptions{})
	}
	if err != nil {
		return Contender{}, fmt.Errorf("break %s: %w", who.Path, line.Why(ctx, err))
	}
	isIt := func(e line.Entry) bool { return line.Join(s.locks.Path, e.Name) == who.Path }
	if i := slices.IndexFunc(waiting, isIt); i > 0 { // it watches the one before it alone
		line.Nudge(ctx, s.c, line.Join(s.locks.Path, waiting[i-1].Name))
	}
	broken := contender(who.Path, node.Data, node.Stat)
	broken.Holds = who.Holds
	return broken, nil
}

// ours returns an error unless the contender is one of this semaphore.
func (s *Semaphore) ours(who Contender) error {
	for _, l := range []*line.Line{s.leases, s.locks} {
		name := line.Base(who.Path)
		if _, ok := l.Layout.Parse(name); ok && line.Join(l.Path, name) == who.Path {
			return nil
		}
	}
	return fmt.Errorf("%w: %q is no contender of %s", client.ErrBadArguments, who.Path, s.path)
}
