package queue

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// receipts let changes be done exactly once: a change is one multi with the set of a
// receipt, an ephemeral node of one's own. Its version tells whether that was done,
// whatever others have done meanwhile to what was changed. To look at that instead
// would be wrong: an item that is not there may have been taken already.
type receipts struct {
	c   *client.Client
	dir string
	acl []client.ACL

	mu   sync.Mutex
	free []*receipt // by nobody used
}

// receipt is one node. It is used by one change at a time.
type receipt struct {
	path    string
	version int32
}

// opError is why a multi was not done.
type opError struct {
	index int // of the operation, from 0; negative if it is none of the caller's
	err   error
}

func (e *opError) Error() string { return e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

// failed returns which operation of a multi failed, or -1.
func failed(err error) int {
	if m, ok := errors.AsType[*client.MultiError](err); ok {
		return m.Index
	}
	return -1
}

// get returns a receipt that is free, or a new one.
func (r *receipts) get(ctx context.Context) (*receipt, error) {
	r.mu.Lock()
	if n := len(r.free); n > 0 {
		rec := r.free[n-1]
		r.free = r.free[:n-1]
		r.mu.Unlock()
		return rec, nil
	}
	r.mu.Unlock()
	rec := &receipt{path: line.Join(r.dir, line.NewID())}
	if err := create(ctx, r.c, rec.path, client.Ephemeral, r.acl); err != nil {
		if client.IsAmbiguous(err) {
			r.discard(ctx, rec)
		}
		return nil, err
	}
	return rec, nil
}

// discard deletes a receipt that is of no more use.
func (r *receipts) discard(ctx context.Context, rec *receipt) { _ = give(ctx, r.c, rec.path) }

func (r *receipts) put(rec *receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free = append(r.free, rec)
}

// close deletes what is free. The receipts must not be used any more.
func (r *receipts) close(ctx context.Context) error {
	r.mu.Lock()
	free := r.free
	r.free = nil
	r.mu.Unlock()
	var first error
	for _, rec := range free {
		if err := give(ctx, r.c, rec.path); first == nil {
			first = err
		}
	}
	return first
}

// once does the operations as one change. An *opError says which one failed, and that
// nothing was done; an ErrUnknown that this can't be known.
func (r *receipts) once(ctx context.Context, ops ...client.Op) error {
	rec, err := r.get(ctx)
	if err != nil {
		return err
	}
	unsure := false // whether an attempt may have been done
	for {
		_, err := r.c.Multi(ctx, slices.Concat([]client.Op{client.SetOp(rec.path, nil, rec.version)}, ops)...)
		at := failed(err)
		switch {
		case err == nil, unsure && at == 0 && errors.Is(err, client.ErrBadVersion):
			rec.version++
			r.put(rec)
			return nil
		case at == 0 && errors.Is(err, client.ErrNoNode) && !unsure: // it went with a session
			if rec, err = r.get(ctx); err != nil {
				return err
			}
			continue
		case client.IsAmbiguous(err):
			unsure = true
		case at > 0 || !unsure:
			r.put(rec)
			return &opError{at - 1, err}
		default:
			r.discard(ctx, rec)
			return unknown(r.dir, err)
		}
		done, err := r.look(ctx, rec, err)
		if done || err != nil {
			return err
		}
	}
}

// look reports whether a change of which no reply came was done. If it was not it may
// still be on its way: the versions see to that it is not done twice.
func (r *receipts) look(ctx context.Context, rec *receipt, cause error) (done bool, err error) {
	stat, there, err := r.c.Exists(ctx, rec.path)
	switch {
	case err != nil:
		r.discard(ctx, rec)
		return false, unknown(r.dir, err)
	case !there:
		return false, unknown(r.dir, cause)
	case stat.Version > rec.version:
		rec.version = stat.Version
		r.put(rec)
		return true, nil
	}
	return false, nil
}
