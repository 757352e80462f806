package queue

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Offer appends an item. If the connection breaks it goes on as Options.Offers says;
// an error that client.IsAmbiguous, ErrUnknown among them, is that there may be an item
// nevertheless.
func (q *Queue) Offer(ctx context.Context, data []byte) error {
	return q.offer(ctx, DefaultPriority, data)
}

// OfferAll appends items. As many as fit in one request go together: all of them get
// into the queue or none, with nothing in between. The error is an *OfferError if some
// may have got there.
func (q *Queue) OfferAll(ctx context.Context, items [][]byte) error {
	return q.offer(ctx, DefaultPriority, items...)
}

// OfferError is that of several items some were offered, and then one was not.
type OfferError struct {
	Offered int // how many are in the queue for sure: the first ones
	Err     error
}

// Error says what happened to the others.
func (e *OfferError) Error() string { return "offer items: " + e.Err.Error() }

// Unwrap returns why no more were offered.
func (e *OfferError) Unwrap() error { return e.Err }

// How much goes into one request: far below the servers' limit, which is 1 MiB, and
// little enough for others to get their turn.
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

// change does the operations as one, which create things below q.dir, as
// Options.Offers says. It makes q.dir if need be.
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
		if !client.IsAmbiguous(err) || q.o.Offers == AtMostOnce {
			return err
		}
		// A read waits for the connection, and for as long as the policy says.
		if _, lookErr := q.c.Exists(ctx, q.dir); lookErr != nil {
			return err
		}
	}
}
