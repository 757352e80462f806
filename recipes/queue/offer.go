package queue

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Offer appends an item. Options.Offers says what it does if the connection breaks. If an
// error IsAmbiguous, as ErrUnknown is, the item may be in the queue.
func (q *Queue) Offer(ctx context.Context, data []byte) error {
	return q.offer(ctx, DefaultPriority, data)
}

// OfferAll appends items. As many as fit into one request are appended together, or not at
// all, with nothing in between. The error is an *OfferError if some may be in the queue.
func (q *Queue) OfferAll(ctx context.Context, items [][]byte) error {
	return q.offer(ctx, DefaultPriority, items...)
}

// OfferError means that some of several items were offered, but not all.
type OfferError struct {
	Offered int // how many are certainly in the queue: the first ones
	Err     error
}

func (e *OfferError) Error() string { return "offer items: " + e.Err.Error() }

func (e *OfferError) Unwrap() error { return e.Err }

// The limits of one request are far below the servers', which is 1 MiB, so that others get
// their turn.
const (
	batchItems = 256
	batchBytes = 256 << 10
)

// batch returns how many of the items go into one request.
func batch(items [][]byte) int {
	size := 0
	for i, data := range items {
		size += len(data)
		if i > 0 && (size > batchBytes || i == batchItems) {
			return i
		}
	}
	return len(items)
}

// offerRanked is offer with a rank that the caller has chosen; what is the error's text if
// there is no such rank.
func (q *core) offerRanked(ctx context.Context, rank int64, what string, items [][]byte) error {
	if rank < 0 || rank > q.naming.most {
		return badArgument(q.dir, what)
	}
	return q.offer(ctx, rank, items...)
}

func (q *core) offer(ctx context.Context, rank int64, items ...[]byte) error {
	ctx, end, err := q.life.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	path := line.Join(q.dir, q.naming.stem(rank))
	for offered := 0; offered < len(items); {
		n := batch(items[offered:])
		ops := make([]client.Op, n)
		for i, data := range items[offered : offered+n] {
			ops[i] = client.CreateOp(path, q.naming.encode(data), client.CreateOptions{Mode: q.o.mode(), ACL: q.o.ACL})
		}
		if err := q.change(ctx, ops); err != nil {
			if offered > 0 || client.IsAmbiguous(err) && len(items) > 1 {
				return &OfferError{offered, err}
			}
			return err
		}
		offered += n
	}
	return nil
}

// rounds is how often a request is repeated because the connection broke, or because a
// node above was deleted.
const rounds = 10

// change does operations that create nodes below q.dir, as Options.Offers says. It creates
// q.dir if there is none.
func (q *core) change(ctx context.Context, ops []client.Op) error {
	for round := 1; ; round++ {
		err := q.attempt(ctx, ops)
		if !errors.Is(err, client.ErrNoNode) || client.IsAmbiguous(err) || round == rounds {
			return err
		}
		if err := q.ensure(ctx); err != nil {
			return err
		}
	}
}

func (q *core) attempt(ctx context.Context, ops []client.Op) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := grace(ctx, q.c)
	defer cancel()
	if q.o.Offers == ExactlyOnce {
		return q.once(ctx, ops...)
	}
	for {
		_, err := q.c.Multi(ctx, ops...)
		if !client.IsAmbiguous(err) || q.o.Offers == AtMostOnce || !q.reconnected(ctx) {
			return err
		}
	}
}

// reconnected waits until the connection is back, as the client's policy says.
func (q *core) reconnected(ctx context.Context) bool {
	_, err := q.c.Exists(ctx, q.dir)
	return err == nil
}

// once does the operations as one change, with a receipt. The error is ErrUnknown if it is
// not known whether that was done.
func (q *core) once(ctx context.Context, ops ...client.Op) error {
	_, err := q.receipts.Do(ctx, ops...)
	if client.IsAmbiguous(err) {
		return unknown(q.path, err)
	}
	return err
}
