package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Draft is an item that is being offered to a TwoPhase queue. It is what its producer
// has to remember, all three fields, to repeat the offer in another session or, written
// down, in another process. One goroutine at a time may use it.
type Draft struct {
	// ID tells the item from all others, ever, at this queue. Any text is one, but "".
	ID string
	// Data is what is offered.
	Data []byte
	// Item is the name of the item's node, and empty until there is one.
	Item string

	fresh bool // there is no node with the ID for sure
}

// NewDraft returns a draft with an ID of its own. Nothing is known of it at the servers.
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

// Prepare is the first half of Offer: afterwards there is a node for the item, named in
// d.Item, but nobody can take it. Whoever wants to go on with an offer after a crash
// writes the draft down between Prepare and Offer.
//
// After an error d.Item is empty, and Prepare may be repeated. If the connection breaks
// it looks for a node with the ID before it makes one. What is overlooked then, or never
// asked for again, is a draft that nobody can take, and Sweep removes it.
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

// Offer appends the item. It takes two requests: the first makes the node, as Prepare
// does, and the second sets its flag, from which on it can be taken. If that finds no
// node the item has been taken already, and all is well.
//
// After an error it may be repeated with the same draft: any time, as often as one likes,
// by this TwoPhase or another one at the path, in another session. The item is in the
// queue once. As long as d.Item is empty it is not there, and need not be offered again.
//
// Another process may repeat it, too, if the draft was written down between Prepare and
// Offer. Without d.Item it can't: what is not there may have been taken already.
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

// lookUp returns the name of the first item with that stem, or "". It finds all that
// were made before.
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

// publish sets the flag of an item that was prepared. The version lets that be done
// once, so it is repeated blindly; to look at what is there would tell nothing.
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
		// A read waits for the connection, and for as long as the policy says.
		if _, lookErr := q.c.Exists(ctx, q.dir); lookErr != nil {
			return err
		}
	}
}
