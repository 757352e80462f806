package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/recipes"
)

// Member is one of the locks of a Multi: see Of.
type Member struct {
	path string
	lock func(ctx context.Context) (Holding, error)
}

// Of makes a member of a Multi of a lock's path and the function that waits for it:
//
//	lock.NewMulti(lock.Of(m.Path(), m.Lock), lock.Of(rw.Path(), rw.RLock))
func Of[H Holding](path string, lock func(ctx context.Context) (H, error)) Member {
	return Member{path, func(ctx context.Context) (Holding, error) { return lock(ctx) }}
}

// Multi is several locks as one: all of them are held, or none.
type Multi struct{ members []Member }

// NewMulti returns a lock of all members. Their paths must be different.
//
// They are locked in the order of their paths, one after the other. So programs that
// call the locks by the same paths never wait for each other in a circle.
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

// Lock waits until all members are the caller's. If one can't be had, or one that was
// had is lost meanwhile, those that it has are unlocked and the error is that one's.
func (m *Multi) Lock(ctx context.Context) (*MultiHeld, error) {
	h := &MultiHeld{}
	h.ctx, h.lose = context.WithCancelCause(context.WithoutCancel(ctx))
	waiting, stop := merge(ctx, h.ctx)
	defer stop()
	for _, member := range m.members {
		held, err := member.lock(waiting)
		if err != nil {
			return nil, both(err, h.unlock(ctx))
		}
		h.take(held)
	}
	if err := h.Err(); err != nil {
		return nil, both(err, h.unlock(ctx))
	}
	return h, nil
}

// MultiHeld is several locks that one has, until Unlock or until one of them is lost.
type MultiHeld struct {
	ctx      context.Context
	lose     context.CancelCauseFunc
	helds    []Holding
	mu       sync.Mutex
	unlocked bool
}

// take adds a lock whose loss is that of all.
func (h *MultiHeld) take(held Holding) {
	h.helds = append(h.helds, held)
	context.AfterFunc(held.Context(), func() { h.lose(context.Cause(held.Context())) })
}

// Context returns a context that ends when one of the locks is lost, with its cause, or
// when they are unlocked. It has the values of the context that Lock was given.
func (h *MultiHeld) Context() context.Context { return h.ctx }

// Err returns nil while all of the locks are held, and recipes.ErrNotHeld after Unlock.
func (h *MultiHeld) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unlocked {
		return errNotHeld
	}
	for _, held := range h.helds {
		if err := held.Err(); err != nil {
			return err
		}
	}
	return context.Cause(h.ctx)
}

// errNotHeld is of a Multi that was unlocked.
var errNotHeld = fmt.Errorf("unlock several: %w: they have been unlocked before", recipes.ErrNotHeld)

// Unlock gives up all of the locks, the last one first, also if ctx has ended or one can't
// be unlocked. It returns recipes.ErrNotHeld if it was called before, and else what the
// locks' own say.
func (h *MultiHeld) Unlock(ctx context.Context) error {
	h.mu.Lock()
	before := h.unlocked
	h.unlocked = true
	h.mu.Unlock()
	if before {
		return errNotHeld
	}
	return h.unlock(ctx)
}

func (h *MultiHeld) unlock(ctx context.Context) error {
	var errs []error
	for _, held := range slices.Backward(h.helds) {
		errs = append(errs, held.Unlock(ctx))
	}
	h.lose(context.Canceled)
	return errors.Join(errs...)
}
