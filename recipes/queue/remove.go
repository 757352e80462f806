package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// item is an entry with its data.
type item struct {
	*entry
	data []byte
}

// remove takes items out of the queue, and returns the data of those that it got. What it
// did not get, but may be there, it puts back into the stock.
func (q *consumer) remove(ctx context.Context, entries []*entry, guard []client.Op) ([][]byte, error) {
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
		gone, err := q.removeAll(ctx, items, guard)
		switch {
		case err == nil:
			return data(items), nil
		case gone >= 0: // another consumer has that one: try the others, but not all at once
			items = slices.Delete(items, gone, gone+1)
			half := (len(items) + 1) / 2
			q.putBack(items[half:])
			items = items[:half]
		case errors.Is(err, ErrUnknown):
			return q.settle(ctx, items, err)
		default:
			q.putBack(items)
			return nil, err
		}
	}
	return nil, nil
}

// read returns those of the items that exist and are no drafts.
func (q *consumer) read(ctx context.Context, entries []*entry) ([]item, error) {
	var items []item
	for _, e := range entries {
		e.ask(q.c, q.dir)
	}
	for _, e := range entries {
		node, err := e.read(ctx, q.c, q.dir)
		if err == nil {
			node.Data, err = q.naming.decode(line.Join(q.dir, e.name), node.Data)
		}
		if errors.Is(err, client.ErrNoNode) || errors.Is(err, errDraft) { // a watch tells when the draft can be taken
			continue
		}
		if err != nil {
			q.stock.put(entries...)
			return nil, err
		}
		items = append(items, item{e, node.Data})
	}
	return items, nil
}

// removeAll takes all of the items or none. gone is the index of an item that does not
// exist, or -1 if that is not why it failed.
func (q *consumer) removeAll(ctx context.Context, items []item, guard []client.Op) (gone int, err error) {
	ops := slices.Clone(guard)
	each := 1 // operations for each item
	for _, it := range items {
		ops = append(ops, client.DeleteOp(line.Join(q.dir, it.name), client.AnyVersion))
		if q.naming.slotted {
			ops, each = append(ops, client.DeleteOp(q.slot(it.slot), client.AnyVersion)), 2
		}
	}
	var at int
	if q.o.Takes == ExactlyOnce {
		err = q.once(ctx, ops...)
		at = line.FailedOp(err)
	} else {
		at, err = q.removeBlind(ctx, ops)
	}
	switch after := at - len(guard); {
	case err == nil || at < 0 || !errors.Is(err, client.ErrNoNode):
		return -1, err
	case after < 0:
		return -1, errDeposed
	case after%each > 0:
		return -1, fmt.Errorf("%w: something below %s is missing: %w", recipes.ErrLayout, q.path, err)
	default:
		return after / each, err
	}
}

// removeBlind does the operations without a receipt. If the connection breaks and the
// items are gone afterwards, the error is ErrUnknown.
func (q *consumer) removeBlind(ctx context.Context, ops []client.Op) (at int, err error) {
	unsure := false
	for {
		_, err := q.c.Multi(ctx, ops...)
		switch {
		case err == nil:
			return -1, nil
		case client.IsAmbiguous(err):
			unsure = true
			if !q.reconnected(ctx) {
				return -1, unknown(q.dir, err)
			}
		case unsure:
			return -1, unknown(q.dir, err)
		default:
			return line.FailedOp(err), err
		}
	}
}

// settle decides about items of which it is not known who has them.
func (q *consumer) settle(ctx context.Context, items []item, err error) ([][]byte, error) {
	if lookErr := q.c.Sync(ctx, q.dir); lookErr != nil {
		return nil, &UnknownError{Data: data(items), Err: err}
	}
	var gone []item
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

func (q *consumer) putBack(items []item) {
	for _, it := range items {
		q.stock.put(it.entry)
	}
}

func data(items []item) [][]byte {
	all := make([][]byte, len(items))
	for i, it := range items {
		all[i] = it.data
	}
	return all
}
