package queue

import (
	"context"
	"errors"
	"math"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Poll takes the first item; ok is false if there is none. It does not wait for one.
//
// Options.Takes says how certain it is that this consumer, and no other, has taken what
// Poll returns. If that can't be known, the error is ErrUnknown: see UnknownError.
func (q *consumer) Poll(ctx context.Context) (data []byte, ok bool, err error) {
	items, err := q.take(ctx, 1, false)
	if len(items) == 0 {
		return nil, false, err
	}
	return items[0], true, nil
}

// Take is Poll that waits for an item. If the session ends, the error wraps
// recipes.ErrLost.
func (q *consumer) Take(ctx context.Context) ([]byte, error) {
	items, err := q.take(ctx, 1, true)
	if err != nil {
		return nil, err
	}
	return items[0], nil
}

// PollAll is Poll of up to limit items, in order, or fewer if others take them at the same
// time. It returns none only if the queue was empty, or with an error. One request takes up
// to 256.
func (q *consumer) PollAll(ctx context.Context, limit int) ([][]byte, error) {
	return q.take(ctx, limit, false)
}

// TakeAll is PollAll that waits for the first item. If the session ends, the error wraps
// recipes.ErrLost.
func (q *consumer) TakeAll(ctx context.Context, limit int) ([][]byte, error) {
	return q.take(ctx, limit, true)
}

// Peek returns the first item and leaves it in the queue; ok is false if there is none.
func (q *consumer) Peek(ctx context.Context) (data []byte, ok bool, err error) {
	ctx, end, err := q.life.begin(ctx)
	if err != nil {
		return nil, false, err
	}
	defer end()
	for {
		entries, err := q.list(ctx)
		if err != nil {
			return nil, false, err
		}
		drafts := 0
		for _, e := range entries {
			path := line.Join(q.dir, e.name)
			node, err := q.c.Get(ctx, path)
			if errors.Is(err, client.ErrNoNode) {
				continue
			}
			if err == nil {
				node.Data, err = q.naming.decode(path, node.Data)
			}
			if !errors.Is(err, errDraft) {
				return node.Data, err == nil, err
			}
			drafts++
		}
		if drafts == len(entries) {
			return nil, false, nil
		}
	}
}

// take takes up to limit items, and waits for the first one if wait is true.
func (q *consumer) take(ctx context.Context, limit int, wait bool) (items [][]byte, err error) {
	defer func() { err = line.Lost(err) }()
	if limit < 1 {
		return nil, badArgument(q.path, "the limit should be at least 1")
	}
	ctx, end, err := q.life.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	place, err := q.enter(ctx, wait, nil)
	if err != nil {
		return nil, err
	}
	for {
		entries, err := q.source.find(ctx, min(limit, batchItems), wait)
		if err != nil || len(entries) == 0 {
			return nil, err
		}
		items, err := q.remove(ctx, entries, guard(place))
		if errors.Is(err, errDeposed) {
			if place, err = q.enter(ctx, wait, place); err == nil {
				continue
			}
		}
		if len(items) > 0 || err != nil {
			return items, err
		}
	}
}

// listed is the source of a queue whose new items come last: it reads the list when it has
// used up the one before.
type listed struct {
	*core
	waiting permit // to wait for items
}

// find has only one of the calls that wait watch the list. When that has its items, the
// next one finds the others in the stock.
func (l *listed) find(ctx context.Context, n int, wait bool) ([]*entry, error) {
	if !wait {
		return l.pop(ctx, n)
	}
	if e := l.popStock(n); len(e) > 0 {
		return e, nil
	}
	return l.waiting.await(ctx, n, l.pop, l.watchEmpty)
}

func (l *listed) popStock(n int) []*entry { return l.stock.pop(n, math.MaxInt64, l.o.Unordered) }

// pop returns up to n items of the stock, or of a new list. There are none only if that
// list is empty.
func (l *listed) pop(ctx context.Context, n int) ([]*entry, error) {
	if e := l.popStock(n); len(e) > 0 {
		return e, nil
	}
	if err := l.listing.get(ctx); err != nil {
		return nil, err
	}
	defer l.listing.put()
	if e := l.popStock(n); len(e) > 0 {
		return e, nil // another call has read the list meanwhile
	}
	entries, err := l.list(ctx)
	if err != nil {
		return nil, err
	}
	l.stock.fill(entries)
	return l.popStock(n), nil
}

// watchEmpty returns when the list may not be empty any more. It reads the list with the
// watch, so that it misses nothing that came since it was read without.
func (l *listed) watchEmpty(ctx context.Context) error {
	list, err := l.c.ChildrenW(ctx, l.dir)
	if errors.Is(err, client.ErrNoNode) {
		return l.ensure(ctx)
	}
	if err != nil {
		return err
	}
	if len(list.Names) == 0 {
		_, err = list.Watch.Next(ctx)
	}
	if len(list.Names) > 0 || err != nil {
		line.DropWatch(ctx, list.Watch)
	}
	return err
}

func (l *listed) close(context.Context) {}
