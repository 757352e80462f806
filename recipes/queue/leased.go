package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Leased is a queue whose items stay in it while they are worked on. A consumer has a Lease
// of an item until it acknowledges the item, releases it, or its session ends; the item is
// available again then. So no item is lost with a consumer, and an item is worked on twice
// only if a consumer has failed.
//
// Items have priorities, as with Priority; those of one priority are handed out first in,
// first out. The list is read again after at most 100 items. It may be used from any
// goroutine. Each lease has a goroutine.
type Leased struct {
	core
	taken   string
	dead    string
	waiting waiting
	queue   permit // to wait for items

	mu     sync.Mutex
	leases map[*Lease]bool
	undo   sync.WaitGroup // withdrawals of claims
}

const (
	// claimed is the version of the node of a claim. Those of kazoo have 0.
	claimed = 1
	// listLimit is how many items of a list are handed out.
	listLimit = 100
)

// NewLeased returns the leased queue at path. It sends no request.
func NewLeased(c *client.Client, path string, o Options) (*Leased, error) {
	if o.Layout != 0 || o.Exclusive || o.Takes != ExactlyOnce {
		return nil, fmt.Errorf("queue: a leased queue has its own layout and its own guarantee: Options.Layout and Options.Takes should be 0, and Options.Exclusive false")
	}
	q := &Leased{taken: path + "/taken", dead: path + "/dead", queue: newPermit(), leases: make(map[*Lease]bool)}
	if err := q.init(c, path, o, kazooNaming); err != nil {
		return nil, err
	}
	q.setDirs(path+"/entries", q.taken)
	q.waiting = newWaiting(q.c, path+"/waiting", o.ACL)
	return q, nil
}

// Offer appends an item of DefaultPriority: see Queue.Offer.
func (q *Leased) Offer(ctx context.Context, data []byte) error {
	return q.OfferAll(ctx, [][]byte{data}, DefaultPriority)
}

// OfferAll appends items of a priority, 0 to 999, of which 0 is taken first: see
// Queue.OfferAll.
func (q *Leased) OfferAll(ctx context.Context, items [][]byte, priority int) error {
	return q.offerRanked(ctx, int64(priority), fmt.Sprintf("the priority is %d: it should be 0 to %d", priority, q.naming.most), items)
}

// Poll leases the first item that nobody has; ok is false if there is none. The end of ctx
// ends Lease.Context, but does not give the item back.
func (q *Leased) Poll(ctx context.Context) (l *Lease, ok bool, err error) {
	ctx, end, err := q.life.begin(ctx)
	if err != nil {
		return nil, false, err
	}
	defer end()
	l, err = q.try(ctx, q.fillFree)
	return l, l != nil, err
}

// Take is Poll that waits for an item. Waiting calls are served in the order in which they
// came, and only one is woken at a time. If the session ends, the error wraps
// recipes.ErrLost.
func (q *Leased) Take(ctx context.Context) (l *Lease, err error) {
	defer func() { err = line.Lost(err) }()
	ctx, end, err := q.life.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := q.queue.get(ctx); err != nil {
		return nil, err
	}
	defer q.queue.put()
	list := q.fillFree
	err = q.waiting.until(ctx, func(ctx context.Context) (bool, error) {
		l, err = q.try(ctx, list)
		return l != nil, err
	}, func(ctx context.Context) ([]*client.Watch, error) {
		list = nil // watch has just read it
		return q.watch(ctx)
	})
	return l, err
}

// Close ends the calls that are under way and releases the leases of this consumer. Later
// calls return recipes.ErrClosed. It is idempotent.
func (q *Leased) Close(ctx context.Context) error {
	q.life.close()
	q.undo.Wait()
	var errs []error
	for _, l := range q.held() {
		if err := l.Release(ctx); err != nil && !errors.Is(err, recipes.ErrNotHeld) {
			errs = append(errs, err)
		}
		l.stop()
	}
	return errors.Join(append(errs, q.receipts.Close(ctx))...)
}

func (q *Leased) held() []*Lease {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []*Lease
	for l := range q.leases {
		all = append(all, l)
	}
	return all
}

func (q *Leased) forget(l *Lease) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.leases, l)
}

// try leases an item of the stock. If that is empty, it calls list, unless nil, to fill it.
func (q *Leased) try(ctx context.Context, list func(context.Context) error) (*Lease, error) {
	for {
		entries := q.stock.pop(1, math.MaxInt64, q.o.Unordered)
		if len(entries) == 0 && list != nil {
			if err := list(ctx); err != nil {
				return nil, err
			}
			entries = q.stock.pop(1, math.MaxInt64, q.o.Unordered)
		}
		if len(entries) == 0 {
			return nil, nil
		}
		l, err := q.claim(ctx, entries[0])
		if err != nil {
			q.stock.put(entries...)
		}
		if l != nil || err != nil {
			return l, err
		}
	}
}

// fillFree fills the stock with items that nobody has.
func (q *Leased) fillFree(ctx context.Context) error {
	items, err := q.c.Children(ctx, q.dir)
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		return err
	}
	var taken client.Listing
	if len(items.Names) > 0 {
		if taken, err = q.c.Children(ctx, q.taken); err != nil && !errors.Is(err, client.ErrNoNode) {
			return err
		}
	}
	return q.fill(items.Names, taken.Names)
}

func (q *Leased) fill(items, taken []string) error {
	entries, err := q.naming.parseAll(q.dir, items)
	if err != nil {
		return err
	}
	has := make(map[string]bool, len(taken))
	for _, name := range taken {
		has[name] = true
	}
	var free []*entry
	for _, e := range entries {
		if !has[e.name] && len(free) < listLimit {
			free = append(free, e)
		}
	}
	q.stock.fill(free)
	return nil
}

// watch is fillFree that sets watches on what it lists.
func (q *Leased) watch(ctx context.Context) ([]*client.Watch, error) {
	list, err := q.c.ChildrenW(ctx, q.dir)
	if errors.Is(err, client.ErrNoNode) {
		return nil, q.ensure(ctx)
	}
	if err != nil {
		return nil, err
	}
	list2, err := q.c.ChildrenW(ctx, q.taken)
	if err == nil {
		err = q.fill(list.Names, list2.Names)
	}
	if err == nil {
		return []*client.Watch{list.Watch, list2.Watch}, nil
	}
	line.DropWatch(ctx, list.Watch)
	if list2.Watch != nil {
		line.DropWatch(ctx, list2.Watch)
	}
	if errors.Is(err, client.ErrNoNode) {
		return nil, q.ensure(ctx)
	}
	return nil, err
}
