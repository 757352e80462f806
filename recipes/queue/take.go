package queue

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Poll takes the first item; ok is false if there is none. It does not wait for one.
//
// What it returns was taken out of the queue, and what it took out it returns, as far
// as Options.Takes says. ErrUnknown is that this can't be known: see UnknownError.
func (q *core) Poll(ctx context.Context) (data []byte, ok bool, err error) {
	items, err := q.take(ctx, 1, false)
	if len(items) == 0 {
		return nil, false, err
	}
	return items[0], true, nil
}

// Take is Poll that waits for an item. If the session ends, the error wraps
// recipes.ErrLost.
func (q *core) Take(ctx context.Context) ([]byte, error) {
	items, err := q.take(ctx, 1, true)
	if err != nil {
		return nil, err
	}
	return items[0], nil
}

// PollAll is Poll of up to limit items at a time, in order, and fewer if others take
// them at the same time. There is no item only if the queue was empty, or with an
// error. One request takes up to 256.
func (q *core) PollAll(ctx context.Context, limit int) ([][]byte, error) {
	return q.take(ctx, limit, false)
}

// TakeAll is PollAll that waits for the first item. If the session ends, the error
// wraps recipes.ErrLost.
func (q *core) TakeAll(ctx context.Context, limit int) ([][]byte, error) {
	return q.take(ctx, limit, true)
}

// Remove is Poll that returns ErrEmpty if there is no item.
func (q *core) Remove(ctx context.Context) ([]byte, error) {
	return orEmpty(q.Poll(ctx))
}

// Peek returns the first item and leaves it there; ok is false if there is none.
func (q *core) Peek(ctx context.Context) (data []byte, ok bool, err error) {
	ctx, end, err := q.life.begin(ctx)
	if err != nil {
		return nil, false, err
	}
	defer end()
	for {
		entries, err := q.list(ctx)
		if err != nil || len(entries) == 0 {
			return nil, false, err
		}
		drafts := 0
		for _, e := range entries {
			node, err := q.c.Get(ctx, line.Join(q.dir, e.name))
			if errors.Is(err, client.ErrNoNode) {
				continue
			}
			if err == nil {
				node.Data, err = q.naming.decode(line.Join(q.dir, e.name), node.Data)
			}
			if errors.Is(err, errDraft) {
				drafts++
				continue
			}
			return node.Data, err == nil, err
		}
		if drafts == len(entries) {
			return nil, false, nil
		}
	}
}

// Element is Peek that returns ErrEmpty if there is no item.
func (q *core) Element(ctx context.Context) ([]byte, error) {
	return orEmpty(q.Peek(ctx))
}

func orEmpty(data []byte, ok bool, err error) ([]byte, error) {
	if err == nil && !ok {
		err = ErrEmpty
	}
	return data, err
}

// take takes up to limit items, and waits for the first one if wait is true.
func (q *core) take(ctx context.Context, limit int, wait bool) (items [][]byte, err error) {
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
		entries, err := q.find(ctx, min(limit, batchItems), wait)
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

// findListed returns up to n items; only if wait is false there may be none.
func (q *core) findListed(ctx context.Context, n int, wait bool) ([]*entry, error) {
	if wait {
		return q.await(ctx, n)
	}
	return q.pop(ctx, n)
}

// pop returns up to n items of the stock, of a new list if that is used up, and none
// only if a list of now has none.
func (q *core) pop(ctx context.Context, n int) ([]*entry, error) {
	if e := q.stock.pop(n, q.o.Unordered, nil); len(e) > 0 {
		return e, nil
	}
	if err := q.listing.get(ctx); err != nil {
		return nil, err
	}
	defer q.listing.put()
	if e := q.stock.pop(n, q.o.Unordered, nil); len(e) > 0 {
		return e, nil // somebody else has read the list meanwhile
	}
	entries, err := q.list(ctx)
	if err != nil {
		return nil, err
	}
	q.stock.fill(entries)
	return q.stock.pop(n, q.o.Unordered, nil), nil
}

// list reads the list of items.
func (q *core) list(ctx context.Context) ([]*entry, error) {
	list, err := q.c.Children(ctx, q.dir)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return q.naming.parseAll(q.dir, list.Names)
}

// await is pop that waits. Of the calls that wait only one watches the list; it goes
// when it has its items, and the next one finds the others in the stock.
func (q *core) await(ctx context.Context, n int) ([]*entry, error) {
	if e := q.stock.pop(n, q.o.Unordered, nil); len(e) > 0 {
		return e, nil
	}
	if err := q.sentry.get(ctx); err != nil {
		return nil, err
	}
	defer q.sentry.put()
	for {
		entries, err := q.pop(ctx, n)
		if err != nil || len(entries) > 0 {
			return entries, err
		}
		if err := q.watchEmpty(ctx); err != nil {
			return nil, err
		}
	}
}

// watchEmpty returns when the list may not be empty any more. It reads the list again
// with the watch, so that nothing is missed that came since it was read without.
func (q *core) watchEmpty(ctx context.Context) error {
	list, err := q.c.ChildrenW(ctx, q.dir)
	if errors.Is(err, client.ErrNoNode) {
		return q.ensure(ctx)
	}
	if err != nil {
		return err
	}
	if len(list.Names) > 0 {
		dropWatch(ctx, list.Watch)
		return nil
	}
	if _, err := list.Watch.Next(ctx); err != nil {
		dropWatch(ctx, list.Watch)
		return err
	}
	return nil
}
