package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/settle"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/internal/receipt"
)

// Queue is a queue, first in, first out. It may be used from any goroutine.
type Queue struct{ consumer }

// New returns the queue at path. It sends no request. The caller closes the client.
func New(c *client.Client, path string, o Options) (*Queue, error) {
	if o.Layout == 0 {
		o.Layout = Apache
	}
	q := &Queue{}
	if err := q.init(c, path, o, o.Layout.naming()); err != nil {
		return nil, err
	}
	q.source = &listed{core: &q.core, waiting: newPermit()}
	return q, nil
}

// core is the part that all kinds of queue share: the items below one path, the offers,
// and the calls that are under way.
type core struct {
	c        *client.Client
	path     string // of the queue
	dir      string // of the items: path, except for Bounded and Leased
	also     string // a second directory, or ""
	o        Options
	naming   naming
	receipts *receipt.Book
	stock    stock
	listing  permit // to read the list and to fill the stock
	life     lifetime
}

func (q *core) init(c *client.Client, path string, o Options, n naming) error {
	if err := line.CheckPath(path); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	if err := o.validate(); err != nil {
		return err
	}
	if o.Clock == nil {
		o.Clock = wallClock{}
	}
	q.c, q.path, q.o, q.naming = c.Steady(), path, o, n
	receipts := path + "-receipts"
	q.receipts = receipt.New(q.c, receipt.Options{
		Path: func() string { return line.Join(receipts, line.NewID()) },
		Missing: func(ctx context.Context) error {
			return settle.Ensure(ctx, q.c, receipts, client.CreateOptions{Mode: client.Container, ACL: o.ACL})
		},
		ACL: o.ACL,
	})
	q.listing = newPermit()
	q.life.init()
	q.setDirs(path, "")
	return nil
}

func (q *core) setDirs(dir, also string) {
	q.dir, q.also = dir, also
	q.stock.c, q.stock.dir = q.c, dir
}

// ensure creates the directories.
func (q *core) ensure(ctx context.Context) error {
	err := q.ensureNode(ctx, q.dir)
	if err == nil && q.also != "" {
		err = q.ensureNode(ctx, q.also)
	}
	return err
}

// ensureNode creates a node below containers. The node itself is persistent: with a
// container the numbers of its children could begin again while somebody has a list.
func (q *core) ensureNode(ctx context.Context, path string) error {
	_, err := settle.CreateInContainer(ctx, q.c, path, nil, settle.CreateOptions{ACL: q.o.ACL})
	if errors.Is(err, client.ErrNodeExists) {
		return nil
	}
	return err
}

// list returns the items, the first one first.
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

// Path returns the path of the queue.
func (q *core) Path() string { return q.path }

// Len returns the number of items, including those that are leased and drafts. A queue
// that nobody has used has none.
func (q *core) Len(ctx context.Context) (int, error) {
	ctx, end, err := q.life.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	found, err := q.c.Exists(ctx, q.dir)
	return int(found.Stat.NumChildren), err
}

// consumer is a queue whose items are gone when they are taken.
type consumer struct {
	core
	source source
	sole   *sole // nil unless Options.Exclusive
}

// source finds the items that a consumer takes next.
type source interface {
	// find returns up to n items and takes them out of the stock. Only if wait is false
	// there may be none.
	find(ctx context.Context, n int, wait bool) ([]*entry, error)
	// close ends what the source has at the servers. No call is under way.
	close(ctx context.Context)
}

func (q *consumer) init(c *client.Client, path string, o Options, n naming) error {
	err := q.core.init(c, path, o, n)
	if err == nil && o.Exclusive {
		layout := &line.Layout{Labels: []string{"lock-"}}
		q.sole = &sole{line: &line.Line{Client: q.c, Path: path + "-consumer", Layout: layout, ACL: o.ACL}, turn: newPermit()}
	}
	return err
}

// Close ends the calls that are under way, waits for them, and deletes the nodes of this
// consumer that are no items. Items stay, but ephemeral ones only until the session ends.
// Later calls return recipes.ErrClosed. It is idempotent.
func (q *consumer) Close(ctx context.Context) error {
	q.life.close()
	q.source.close(ctx)
	var err error
	if q.sole != nil {
		err = q.sole.leave(ctx)
	}
	return errors.Join(err, q.receipts.Close(ctx))
}
