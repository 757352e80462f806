package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
	"github.com/zkd-project/zkd/recipes/internal/receipt"
)

// Queue is a queue, first in, first out. All its methods may be called from any
// goroutine. It runs none of its own.
type Queue struct{ core }

// New returns the queue at path. It does not talk to the servers. The client stays
// the caller's.
func New(c *client.Client, path string, o Options) (*Queue, error) {
	if o.Layout == 0 {
		o.Layout = Apache
	}
	q := &Queue{}
	if err := q.init(c, path, o, o.Layout.naming()); err != nil {
		return nil, err
	}
	return q, nil
}

// core is what all kinds of queue have in common: the items below one path, and the
// calls that are under way.
type core struct {
	c      *client.Client
	path   string // of the queue
	dir    string // of the items: path itself but for Bounded and Leased
	also   string // a directory that goes with it; may be ""
	o      Options
	naming naming
	// find returns up to n items to take, which are not in the stock then; only if
	// wait is false there may be none.
	find     func(ctx context.Context, n int, wait bool) ([]*entry, error)
	slotOf   func(*entry) string // the node that goes with an item; may be nil
	receipts *receipt.Book
	stock    stock
	sole     *sole  // nil unless Options.Exclusive
	listing  permit // to read the list, and fill the stock
	sentry   permit // to wait for items
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
	q.receipts = newReceipts(q.c, path+"-receipts", o.ACL)
	q.listing, q.sentry = newPermit(), newPermit()
	q.life.init()
	q.find = q.findListed
	if o.Exclusive {
		q.sole = newSole(q.c, path+"-consumer", o.ACL)
	}
	q.setDirs(path, "")
	return nil
}

func (q *core) setDirs(dir, also string) {
	q.dir, q.also = dir, also
	q.stock.c, q.stock.dir = q.c, dir
}

// ensure makes the directories.
func (q *core) ensure(ctx context.Context) error {
	if err := ensure(ctx, q.c, q.dir, q.o.ACL); err != nil || q.also == "" {
		return err
	}
	return ensure(ctx, q.c, q.also, q.o.ACL)
}

// Path returns the path of the queue.
func (q *core) Path() string { return q.path }

// Len returns how many items there are. A queue that nobody has used has none.
func (q *core) Len(ctx context.Context) (int, error) {
	ctx, end, err := q.life.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	found, err := q.c.Exists(ctx, q.dir)
	return int(found.Stat.NumChildren), err
}

// Close ends the calls that are under way, waits for them and gives up what the
// consumer has on the servers besides items. Items stay, except ephemeral ones: these
// go with the session. Afterwards all calls return recipes.ErrClosed.
// It is idempotent.
func (q *core) Close(ctx context.Context) error {
	q.life.close()
	var errs []error
	if q.sole != nil {
		errs = append(errs, q.sole.close(ctx))
	}
	errs = append(errs, q.receipts.Close(ctx))
	return errors.Join(errs...)
}

// permit is had by one at a time.
type permit chan struct{}

func newPermit() permit {
	p := make(permit, 1)
	p <- struct{}{}
	return p
}

func (p permit) get(ctx context.Context) error {
	select {
	case <-p:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p permit) put() { p <- struct{}{} }

// lifetime keeps count of calls, and ends them.
type lifetime struct {
	ctx    context.Context // ends when it is closed
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

func (l *lifetime) init() { l.ctx, l.cancel = context.WithCancel(context.Background()) }

// begin returns the context of a call: it ends with ctx, and when it is closed. end
// has to be called.
func (l *lifetime) begin(ctx context.Context) (call context.Context, end func(), err error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, recipes.ErrClosed
	}
	l.calls.Add(1)
	call, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(recipes.ErrClosed) })
	return call, func() {
		stop()
		cancel(nil)
		l.calls.Done()
	}, nil
}

// close returns when no call is under way.
func (l *lifetime) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.calls.Wait()
}
