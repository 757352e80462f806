package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Leased is a queue whose items stay in it while they are worked on: a consumer has a
// Lease of one, which nobody else has, until he says that it is done, or gives it back,
// or his session ends, when the item is available again. So nothing is lost with a
// consumer, and an item is worked on twice only if one has died over it.
//
// Items have priorities, as with Priority; those of one priority are handed out first
// in, first out. The order is that of a list that is read again after at most 100
// items.
//
// All its methods may be called from any goroutine. Each lease has a goroutine.
type Leased struct {
	core    core
	taken   string
	dead    string
	waiting waiting

	mu     sync.Mutex
	leases map[*Lease]bool
	undo   sync.WaitGroup // claims that are to be withdrawn
}

const (
	// claimed is the version of the node of a claim. kazoo's have 0.
	claimed = 1
	// listed is how many items of a list are handed out.
	listed = 100
)

// NewLeased returns the queue at path. It does not talk to the servers.
func NewLeased(c *client.Client, path string, o Options) (*Leased, error) {
	if o.Layout != 0 || o.Exclusive || o.Takes != ExactlyOnce {
		return nil, fmt.Errorf("queue: a leased queue has its own layout and its own guarantee: Options.Layout and Options.Takes should be 0, and Options.Exclusive false")
	}
	q := &Leased{taken: path + "/taken", dead: path + "/dead", leases: make(map[*Lease]bool)}
	if err := q.core.init(c, path, o, kazooNaming); err != nil {
		return nil, err
	}
	q.core.setDirs(path+"/entries", q.taken)
	q.waiting = newWaiting(q.core.c, path+"/waiting", o.ACL)
	return q, nil
}

// Path returns the path of the queue.
func (q *Leased) Path() string { return q.core.path }

// Len returns how many items there are, those that somebody has included.
func (q *Leased) Len(ctx context.Context) (int, error) { return q.core.Len(ctx) }

// Offer appends an item of DefaultPriority: see Queue.Offer.
func (q *Leased) Offer(ctx context.Context, data []byte) error {
	return q.OfferAll(ctx, [][]byte{data}, DefaultPriority)
}

// OfferAll appends items of a priority, 0 to 999, of which 0 is taken first: see
// Queue.OfferAll.
func (q *Leased) OfferAll(ctx context.Context, items [][]byte, priority int) error {
	if priority < 0 || priority > int(kazooNaming.most) {
		return badArgument(q.core.dir, fmt.Sprintf("the priority is %d: it should be 0 to %d", priority, kazooNaming.most))
	}
	return q.core.offer(ctx, int64(priority), items...)
}

// Poll leases the first item that nobody has; ok is false if there is none. The lease
// does not end with ctx.
func (q *Leased) Poll(ctx context.Context) (l *Lease, ok bool, err error) {
	call, end, err := q.core.life.begin(ctx)
	if err != nil {
		return nil, false, err
	}
	defer end()
	l, err = q.try(call, q.list)
	return l, l != nil, err
}

// Take is Poll that waits for an item. Calls that wait are served in the order in
// which they came, and are not woken before. If the session ends, the error wraps
// recipes.ErrLost.
func (q *Leased) Take(ctx context.Context) (l *Lease, err error) {
	defer func() { err = line.Lost(err) }()
	call, end, err := q.core.life.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := q.core.sentry.get(call); err != nil {
		return nil, err
	}
	defer q.core.sentry.put()
	list := q.list
	err = q.waiting.until(call, func(ctx context.Context) (bool, error) {
		l, err = q.try(ctx, list)
		return l != nil, err
	}, func(ctx context.Context) ([]*client.Watch, error) {
		list = nil // it has just been read
		return q.watch(ctx)
	})
	return l, err
}

// Close gives back what this consumer has leased, and ends the calls that are under
// way. Afterwards all calls return recipes.ErrClosed. It is idempotent.
func (q *Leased) Close(ctx context.Context) error {
	q.core.life.close()
	q.undo.Wait()
	var errs []error
	for _, l := range q.held() {
		if err := l.Nack(ctx); err != nil && !errors.Is(err, recipes.ErrNotHeld) {
			errs = append(errs, err)
		}
		l.stop()
	}
	return errors.Join(append(errs, q.core.Close(ctx))...)
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

// try leases an item of the stock, or of what list fills it with, if that is not nil.
func (q *Leased) try(ctx context.Context, list func(context.Context) error) (*Lease, error) {
	for {
		entries := q.core.stock.pop(1, q.core.o.Unordered, nil)
		if len(entries) == 0 && list != nil {
			if err := list(ctx); err != nil {
				return nil, err
			}
			entries = q.core.stock.pop(1, q.core.o.Unordered, nil)
		}
		if len(entries) == 0 {
			return nil, nil
		}
		l, err := q.claim(ctx, entries[0])
		if err != nil {
			q.core.stock.put(entries...)
		}
		if l != nil || err != nil {
			return l, err
		}
	}
}

// list fills the stock with items that nobody has.
func (q *Leased) list(ctx context.Context) error {
	items, err := q.core.c.Children(ctx, q.core.dir)
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		return err
	}
	var taken client.Listing
	if len(items.Names) > 0 {
		if taken, err = q.core.c.Children(ctx, q.taken); err != nil && !errors.Is(err, client.ErrNoNode) {
			return err
		}
	}
	return q.fill(items.Names, taken.Names)
}

func (q *Leased) fill(items, taken []string) error {
	entries, err := q.core.naming.parseAll(q.core.dir, items)
	if err != nil {
		return err
	}
	has := make(map[string]bool, len(taken))
	for _, name := range taken {
		has[name] = true
	}
	var free []*entry
	for _, e := range entries {
		if !has[e.name] && len(free) < listed {
			free = append(free, e)
		}
	}
	q.core.stock.fill(free)
	return nil
}

// watch is list that sets watches on what it lists.
func (q *Leased) watch(ctx context.Context) ([]*client.Watch, error) {
	list, err := q.core.c.ChildrenW(ctx, q.core.dir)
	if errors.Is(err, client.ErrNoNode) {
		return nil, q.core.ensure(ctx)
	}
	if err != nil {
		return nil, err
	}
	list2, err := q.core.c.ChildrenW(ctx, q.taken)
	if err == nil {
		err = q.fill(list.Names, list2.Names)
	}
	if err == nil {
		return []*client.Watch{list.Watch, list2.Watch}, nil
	}
	dropWatch(ctx, list.Watch)
	if list2.Watch != nil {
		dropWatch(ctx, list2.Watch)
	}
	if errors.Is(err, client.ErrNoNode) {
		return nil, q.core.ensure(ctx)
	}
	return nil, err
}
