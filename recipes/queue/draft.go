package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Draft is an item that is being offered to a TwoPhase queue. A producer that remembers all
// three fields can repeat the offer in another session or process. One goroutine at a time
// may use it.
type Draft struct {
	// ID differs from those of all other items that ever were in the queue. It is any text
	// but "".
	ID string
	// Data is what is offered.
	Data []byte
	// Item is the name of the item's node, or empty while there is none.
	Item string

	fresh bool // there is certainly no node with the ID
}

// NewDraft returns a draft with a new ID. It sends no request.
func NewDraft(data []byte) *Draft {
	return &Draft{ID: line.NewID(), Data: data, fresh: true}
}

// stem returns the name of the item without the number.
func (d *Draft) stem() string { return flagNaming.prefix + line.Escape(d.ID) + label }

// check returns what is wrong with the draft.
func (d *Draft) check(path string) error {
	if d.ID == "" {
		return badArgument(path, "the draft's ID is empty")
	}
	if _, ok := line.Number(d.Item, d.stem()); !ok && d.Item != "" {
		return badArgument(path, fmt.Sprintf("the draft's Item is %q, which is not of its ID %q", d.Item, d.ID))
	}
	return nil
}

// Prepare is the first half of Offer: it creates the item's node, named in d.Item, but
// nobody can take it. A producer that wants to continue after a crash writes the draft down
// between Prepare and Offer.
//
// After an error d.Item is empty, and Prepare may be repeated. It looks for a node with the
// ID before it creates another. A draft that it overlooks, or that is never asked for again,
// can't be taken, and Sweep removes it.
func (q *TwoPhase) Prepare(ctx context.Context, d *Draft) error {
	if err := d.check(q.path); err != nil {
		return err
	}
	ctx, end, err := q.life.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return q.prepare(ctx, d)
}

// Offer appends the item, in two requests: the first creates the node, as Prepare does, and
// the second sets its flag, after which it can be taken. If the node is gone by then, the
// item was taken, and Offer has succeeded.
//
// After an error it may be repeated with the same draft, at any time and as often as needed,
// by any TwoPhase at the path, in any session. The item is in the queue once. Another process
// needs d.Item for that: without it, an item that is not there may have been taken already.
func (q *TwoPhase) Offer(ctx context.Context, d *Draft) error {
	if err := d.check(q.path); err != nil {
		return err
	}
	ctx, end, err := q.life.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := q.prepare(ctx, d); err != nil {
		return err
	}
	return q.publish(ctx, d)
}

func (q *TwoPhase) prepare(ctx context.Context, d *Draft) error {
	for round := 1; d.Item == ""; round++ {
		if !d.fresh {
			name, err := q.lookUp(ctx, d.stem())
			if err != nil {
				return err
			}
			if d.Item = name; name != "" {
				return nil
			}
		}
		made, err := q.c.Create(ctx, line.Join(q.dir, d.stem()), q.naming.encode(d.Data), client.CreateOptions{Mode: client.PersistentSequential, ACL: q.o.ACL})
		if err == nil {
			d.Item = line.Base(made.Path)
			return nil
		}
		d.fresh = !client.IsAmbiguous(err)
		missing := errors.Is(err, client.ErrNoNode) && d.fresh
		if d.fresh && !missing || round == rounds {
			return err
		}
		if missing {
			if err := q.ensure(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookUp returns the name of the first item with that stem, or "". It finds all items that
// were created before.
func (q *TwoPhase) lookUp(ctx context.Context, stem string) (string, error) {
	if err := q.c.Sync(ctx, q.dir); err != nil {
		return "", err
	}
	entries, err := q.list(ctx)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if _, ok := line.Number(e.name, stem); ok {
			return e.name, nil
		}
	}
	return "", nil
}

// publish sets the flag of an item that was prepared. It may be repeated without a look,
// since the version allows it once.
func (q *TwoPhase) publish(ctx context.Context, d *Draft) error {
	for round := 1; ; round++ {
		_, err := q.c.Set(ctx, line.Join(q.dir, d.Item), flag(isConsumable, d.Data), 0)
		switch {
		case err == nil:
			return nil
		case client.IsAmbiguous(err) && round < rounds:
		case !client.IsAmbiguous(err) && errors.Is(err, client.ErrBadVersion): // it was set before
			return nil
		case !client.IsAmbiguous(err) && errors.Is(err, client.ErrNoNode): // and the item was taken
			return nil
		default:
			return err
		}
		if !q.reconnected(ctx) {
			return err
		}
	}
}
