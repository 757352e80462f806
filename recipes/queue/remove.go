package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// loot is an item with its data.
type loot struct {
	*entry
	data []byte
	also []client.Op // done together with the delete
}

// remove takes items out of the queue that were seen there, and returns the data of
// those that it has got. What it has not got, but may be there, goes back to the stock.
func (q *core) remove(ctx context.Context, entries []*entry, guard []client.Op) ([][]byte, error) {
	items, err := q.read(ctx, entries)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	if ctx.Err() != nil {
		q.stock.put(entries...)
		return nil, context.Cause(ctx)
	}
	ctx, cancel := grace(ctx, q.c)
	defer cancel()
	for len(items) > 0 {
		lost, err := q.removeAll(ctx, items, guard)
		switch {
		case err == nil:
			return data(items), nil
		case lost >= 0: // somebody else has that one: the others, but not all at once
			items = append(items[:lost:lost], items[lost+1:]...)
			if half := (len(items) + 1) / 2; half < len(items) {
				q.putBack(items[half:])
				items = items[:half]
			}
		case errors.Is(err, ErrUnknown):
			return q.settle(ctx, items, err)
		default:
			q.putBack(items)
			return nil, err
		}
	}
	return nil, nil
}

// read returns those of the items that exist.
func (q *core) read(ctx context.Context, entries []*entry) ([]loot, error) {
	var items []loot
	for _, e := range entries {
		e.ask(q.c, q.dir)
	}
	for _, e := range entries {
		path := line.Join(q.dir, e.name)
		node, err := e.read(ctx, q.c, q.dir)
		if errors.Is(err, client.ErrNoNode) {
			continue
		}
		if err == nil {
			node.Data, err = q.naming.decode(path, node.Data)
		}
		if errors.Is(err, errDraft) {
			continue // a watch tells when it can be taken
		}
		if err != nil {
			q.stock.put(entries...)
			return nil, err
		}
		items = append(items, loot{entry: e, data: node.Data, also: q.spoils(e)})
	}
	return items, nil
}

// spoils are the operations that go with the delete of an item.
func (q *core) spoils(e *entry) []client.Op {
	if q.slotOf == nil {
		return nil
	}
	return []client.Op{client.DeleteOp(q.slotOf(e), client.AnyVersion)}
}

// removeAll takes all of the items or none. lost is the index of one that is gone, or
// -1 if that is not why it failed.
func (q *core) removeAll(ctx context.Context, items []loot, guard []client.Op) (lost int, err error) {
	ops := append([]client.Op(nil), guard...)
	owner := make([]int, len(guard), len(guard)+len(items)) // the item that an operation is of
	for i := range owner {
		owner[i] = -1
	}
	for i, it := range items {
		ops = append(ops, client.DeleteOp(line.Join(q.dir, it.name), client.AnyVersion))
		ops = append(ops, it.also...)
		for range 1 + len(it.also) {
			owner = append(owner, i)
		}
	}
	at := -1
	if q.o.Takes == ExactlyOnce {
		err = q.once(ctx, ops...)
		at = failed(err)
	} else {
		at, err = q.removeBlind(ctx, ops)
	}
	switch {
	case err == nil || at < 0 || !errors.Is(err, client.ErrNoNode):
		return -1, err
	case owner[at] < 0:
		return -1, errDeposed
	case at > 0 && owner[at-1] == owner[at]:
		return -1, fmt.Errorf("%w: something below %s is missing: %w", recipes.ErrLayout, q.path, err)
	}
	return owner[at], err
}

// removeBlind does the operations without a receipt. It is at a loss if the connection
// breaks and the items are gone afterwards: ErrUnknown.
func (q *core) removeBlind(ctx context.Context, ops []client.Op) (at int, err error) {
	unsure := false
	for {
		_, err := q.c.Multi(ctx, ops...)
		switch {
		case err == nil:
			return -1, nil
		case client.IsAmbiguous(err):
			unsure = true
			if _, lookErr := q.c.Exists(ctx, q.dir); lookErr != nil {
				return -1, unknown(q.dir, err)
			}
		case unsure:
			return -1, unknown(q.dir, err)
		default:
			return failed(err), err
		}
	}
}

// settle decides on items of which it is not known who has them.
func (q *core) settle(ctx context.Context, items []loot, err error) ([][]byte, error) {
	if lookErr := q.c.Sync(ctx, q.dir); lookErr != nil {
		return nil, &UnknownError{Data: data(items), Err: err}
	}
	var gone []loot
	for _, it := range items {
		found, lookErr := q.c.Exists(ctx, line.Join(q.dir, it.name))
		if found.Exists { // nobody has taken it
			q.stock.put(it.entry)
		} else if gone = append(gone, it); lookErr != nil {
			return nil, &UnknownError{Data: data(items), Err: err}
		}
	}
	switch {
	case q.o.Takes == AtLeastOnce:
		return data(gone), nil
	case q.o.Takes == AtMostOnce || len(gone) == 0:
		return nil, nil
	}
	return nil, &UnknownError{Data: data(gone), Err: err}
}

func (q *core) putBack(items []loot) {
	for _, it := range items {
		q.stock.put(it.entry)
	}
}

func data(items []loot) [][]byte {
	all := make([][]byte, len(items))
	for i, it := range items {
		all[i] = it.data
	}
	return all
}
