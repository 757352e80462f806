package rwlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Contender is somebody who holds the lock or waits for it.
type Contender struct {
	// Path of the node that stands for it, which is its own for ever.
	Path string
	Kind Kind
	// Priority, if the lock is a Priority.
	Priority int32
	// Holds is whether it has the lock.
	Holds bool
	// Data say who it is. They are nil while it is asked to unlock and has not answered,
	// which is what Asked says.
	Data  []byte
	Asked bool
	// Session that the node belongs to; 0 if it is not ephemeral and stays until
	// somebody deletes it.
	Session client.SessionID
	// Since when it is there, by the clock of the servers.
	Since time.Time
}

// Contenders returns those who hold the lock or wait for it, as the server knows them,
// in the order in which they have their turn.
func (l *RWLock) Contenders(ctx context.Context) ([]Contender, error) {
	entries, err := l.line.List(ctx)
	if err != nil {
		return nil, l.failed(ctx, Read, err)
	}
	var all []Contender
	for i, e := range entries {
		all = append(all, Contender{
			Path: line.Join(l.Path(), e.Name), Kind: Kind(e.Kind), Holds: next(entries, i) < 0,
		})
	}
	return l.describe(ctx, all)
}

// describe reads the contenders' nodes. It drops those that have gone meanwhile.
func (b *base) describe(ctx context.Context, all []Contender) ([]Contender, error) {
	c := b.line.Client.Steady()
	var there []Contender
	for _, who := range all {
		node, err := c.Get(ctx, who.Path)
		if errors.Is(err, client.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("contenders of %s: %w", b.Path(), line.Why(ctx, err))
		}
		there = append(there, who.with(node.Data, node.Stat))
	}
	return there, nil
}

// with returns the contender as its node says that it is.
func (who Contender) with(data []byte, stat client.Stat) Contender {
	who.Data, who.Session, who.Since = data, stat.EphemeralOwner, time.UnixMilli(stat.Ctime)
	if who.Asked = isRequest(data); who.Asked {
		who.Data = nil
	}
	return who
}

// Break takes the lock, or the place in the line, from a contender that Contenders has
// returned, by deleting its node and no other: client.ErrNoNode if it has gone by itself.
// The contender's session lives on. If it holds the lock it is told that it is lost,
// provided that it watches its node as Held does; if it waits it notices when it would be
// its turn. Break returns the contender as it was when its node was deleted.
func (b *base) Break(ctx context.Context, who Contender) (Contender, error) {
	out, err := Undecided, b.ours(who)
	var broken Contender
	if err == nil {
		broken, out, err = b.force(ctx, who)
	}
	if err = b.audit(ctx, who, out, err); err == nil && out == Released {
		err = fmt.Errorf("break %s: %w", who.Path, client.ErrNoNode)
	}
	return broken, err
}

// ours returns an error unless the contender is one of this lock.
func (b *base) ours(who Contender) error {
	_, ok := b.line.Layout.Parse(line.Base(who.Path))
	if !ok || line.Join(b.Path(), line.Base(who.Path)) != who.Path {
		return fmt.Errorf("%w: %q is no contender of %s", client.ErrBadArguments, who.Path, b.Path())
	}
	return nil
}
