package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/recipes/hold"
)

// Member is one of the locks of a Multi: see Of.
type Member struct {
	path string
	lock func(ctx context.Context) (*hold.Held, error)
}

// Of returns a lock's path and the function that waits for it as a member of a Multi:
//
//	lock.NewMulti(lock.Of(m.Path(), m.Lock), lock.Of(rw.Path(), rw.RLock))
func Of(path string, lock func(ctx context.Context) (*hold.Held, error)) Member {
	return Member{path, lock}
}

// Lock calls the function.
func (m Member) Lock(ctx context.Context) (*hold.Held, error) { return m.lock(ctx) }

// Multi combines several locks: either all of them are held, or none.
type Multi struct{ members []Member }

// NewMulti returns a lock of all members. Their paths must be different.
//
// They are acquired in the order of their paths, one after the other. So programs that
// use the same paths for the locks never wait for each other in a circle.
func NewMulti(members ...Member) (*Multi, error) {
	if len(members) == 0 {
		return nil, errors.New("lock: a Multi needs at least one member")
	}
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.path, b.path) })
	for i := 1; i < len(members); i++ {
		if members[i].path == members[i-1].path {
			return nil, fmt.Errorf("lock: two members of a Multi have the path %s: it would wait for itself", members[i].path)
		}
	}
	return &Multi{members}, nil
}

// Lock waits until the caller holds all members. If one cannot be acquired, or one that was
// acquired is lost meanwhile, it releases those that it has and returns that one's error.
//
// The Nodes of the Held are those of all members, and its Token is that of the last one,
// which can be compared only with those of a Multi of the same members.
func (m *Multi) Lock(ctx context.Context) (*hold.Held, error) {
	t := &multiTenure{}
	t.ctx, t.lose = context.WithCancelCause(context.WithoutCancel(ctx))
	waiting, stop := merge(ctx, t.ctx)
	defer stop()
	for _, member := range m.members {
		held, err := member.Lock(hold.WaitOnly(waiting, t.ctx))
		if err != nil {
			return nil, both(err, t.End(ctx))
		}
		t.add(held)
	}
	if err := t.Err(); err != nil {
		return nil, both(err, t.End(ctx))
	}
	return t.held(ctx), nil
}

// multiTenure is the members that are held.
type multiTenure struct {
	ctx   context.Context
	lose  context.CancelCauseFunc
	helds []*hold.Held
}

// held returns the members as one.
func (t *multiTenure) held(ctx context.Context) *hold.Held {
	of := hold.Description{What: "several locks", Token: t.helds[len(t.helds)-1].Token(), Follows: ctx}
	for _, held := range t.helds {
		of.Nodes = append(of.Nodes, held.Nodes()...)
	}
	return hold.New(t.ctx, of, func(ctx context.Context) hold.Tenure {
		t.ctx = ctx
		return t
	})
}

// add adds a lock whose loss is the loss of all.
func (t *multiTenure) add(held *hold.Held) {
	t.helds = append(t.helds, held)
	context.AfterFunc(held.Context(), func() { t.lose(context.Cause(held.Context())) })
}

// Context returns a context that ends when one of the locks does.
func (t *multiTenure) Context() context.Context { return t.ctx }

// Err returns why one of the locks has ended, or nil.
func (t *multiTenure) Err() error {
	for _, held := range t.helds {
		if err := held.Err(); err != nil {
			return err
		}
	}
	return context.Cause(t.ctx)
}

// End releases the locks, the last one first, even if one cannot be released.
func (t *multiTenure) End(ctx context.Context) error {
	var errs []error
	for _, held := range slices.Backward(t.helds) {
		errs = append(errs, held.Release(ctx))
	}
	t.lose(context.Canceled)
	return errors.Join(errs...)
}
