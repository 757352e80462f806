package rwlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Contender is somebody who holds the lock or waits for it.
type Contender struct {
	Path     string // of its node
	Kind     Kind
	Priority int32 // of a Priority
	Holds    bool
	Data     []byte // who it is, unless it is asked to unlock
	Asked    bool   // it is asked to unlock, and has not answered
	Session  client.SessionID
	Since    client.Zxid // of the change that made its node
}

// Contenders returns those who hold the lock or wait for it, as the server knows them,
// in the order in which they have their turn.
func (l *RWLock) Contenders(ctx context.Context) ([]Contender, error) {
	entries, err := l.line.List(ctx)
	if err != nil {
		return nil, l.failed(Read, err)
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
		data, stat, err := c.Get(ctx, who.Path)
		if errors.Is(err, client.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("contenders of %s: %w", b.Path(), err)
		}
		who.Data, who.Session, who.Since = data, stat.EphemeralOwner, stat.Czxid
		if isRequest(data) {
			who.Data, who.Asked = nil, true
		}
		there = append(there, who)
	}
	return there, nil
}

// Break takes the lock, or the place in the line, away from a contender without asking.
// If it held the lock its Held.Context ends, with recipes.ErrLost; but it may notice too
// late, or not at all if its program is not this package's. It returns false if the
// contender was gone already.
func (b *base) Break(ctx context.Context, who Contender) (bool, error) {
	out, err := Released, b.ours(who)
	if err == nil {
		out, err = b.force(ctx, who.Path)
	}
	return out == Forced, b.audit(who, out, err)
}

// ours returns an error unless the contender is one of this lock.
func (b *base) ours(who Contender) error {
	_, ok := b.line.Layout.Parse(line.Base(who.Path))
	if !ok || line.Join(b.Path(), line.Base(who.Path)) != who.Path {
		return fmt.Errorf("%w: %q is no contender of %s", client.ErrBadArguments, who.Path, b.Path())
	}
	return nil
}
