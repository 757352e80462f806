package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Bounded is a queue that never has more than a number of items, first in, first out. An
// offer to a full queue waits; offers are served in the order in which they came. It may be
// used from any goroutine.
//
// The bound is exact: the multi that creates an item also creates a slot, one of as many
// nodes with fixed names as there may be items, and the multi that deletes the item deletes
// the slot. (With a counter, each change would depend on the one before it.)
type Bounded struct {
	consumer
	capacity int
	waiting  waiting
	entry    permit // to wait for a slot

	mu   sync.Mutex
	free []int // slots that were free when the list was read
}

// maxCapacity is what the names of slots have room for.
const maxCapacity = 1_000_000

// NewBounded returns the queue at path that has at most capacity items, 1 to 1,000,000. All
// that use it must give the same capacity. It sends no request.
func NewBounded(c *client.Client, path string, capacity int, o Options) (*Bounded, error) {
	if capacity < 1 || capacity > maxCapacity {
		return nil, fmt.Errorf("queue: the capacity is %d: it should be 1 to %d", capacity, maxCapacity)
	}
	if o.Layout != 0 {
		return nil, fmt.Errorf("queue: a bounded queue has its own layout: Options.Layout should be 0")
	}
	q := &Bounded{capacity: capacity, entry: newPermit()}
	if err := q.init(c, path, o, slotNaming); err != nil {
		return nil, err
	}
	q.source = &listed{core: &q.core, waiting: newPermit()}
	q.setDirs(path+"/items", path+"/slots")
	q.waiting = newWaiting(q.c, path+"/waiting", o.ACL)
	return q, nil
}

// Capacity returns how many items there may be.
func (q *Bounded) Capacity() int { return q.capacity }

// slot returns the path of a slot.
func (q *core) slot(k int64) string { return fmt.Sprintf("%s/%06d", q.also, k) }

// Offer appends an item, and waits while the queue is full. Otherwise it is as Queue.Offer.
// If the session ends, the error wraps recipes.ErrLost.
func (q *Bounded) Offer(ctx context.Context, data []byte) (err error) {
	defer func() { err = line.Lost(err) }()
	ctx, end, err := q.life.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if done, err := q.try(ctx, data); done || err != nil {
		return err
	}
	if err := q.entry.get(ctx); err != nil {
		return err
	}
	defer q.entry.put()
	return q.waiting.until(ctx, func(ctx context.Context) (bool, error) { return q.try(ctx, data) }, q.watchSlots)
}

// TryOffer is Offer that does not wait: it returns false if the queue is full.
func (q *Bounded) TryOffer(ctx context.Context, data []byte) (bool, error) {
	ctx, end, err := q.life.begin(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	return q.try(ctx, data)
}

// try offers an item if there is a slot for it.
func (q *Bounded) try(ctx context.Context, data []byte) (bool, error) {
	listed := false
	for {
		k, ok := q.guess()
		if !ok && listed {
			return false, nil
		}
		if !ok {
			if err := q.look(ctx); err != nil {
				return false, err
			}
			listed = true
			continue
		}
		mode := client.Persistent
		if q.o.Ephemeral {
			mode = client.Ephemeral
		}
		err := q.change(ctx, []client.Op{
			client.CreateOp(q.slot(k), nil, client.CreateOptions{Mode: mode, ACL: q.o.ACL}),
			client.CreateOp(line.Join(q.dir, q.naming.stem(k)), data, client.CreateOptions{Mode: q.o.mode(), ACL: q.o.ACL}),
		})
		if !errors.Is(err, client.ErrNodeExists) || client.IsAmbiguous(err) {
			return err == nil, err
		}
		listed = false // another offer was quicker; there may be other slots
	}
}

// guess returns a slot that may be free.
func (q *Bounded) guess() (int64, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.free) == 0 {
		return 0, false
	}
	k := q.free[len(q.free)-1]
	q.free = q.free[:len(q.free)-1]
	return int64(k), true
}

// look reads which slots are free, and remembers some of them: those after a random one, so
// that not all clients try the same.
func (q *Bounded) look(ctx context.Context) error {
	list, err := q.c.Children(ctx, q.also)
	if err != nil && !errors.Is(err, client.ErrNoNode) {
		return err
	}
	used := make(map[string]bool, len(list.Names))
	for _, name := range list.Names {
		used[line.Join(q.also, name)] = true
	}
	var free []int
	start := rand.IntN(q.capacity)
	for i := 0; i < q.capacity && len(free) < window; i++ {
		if k := (start + i) % q.capacity; !used[q.slot(int64(k))] {
			free = append(free, k)
		}
	}
	rand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free = free
	return nil
}

// watchSlots watches for slots to become free.
func (q *Bounded) watchSlots(ctx context.Context) ([]*client.Watch, error) {
	list, err := q.c.ChildrenW(ctx, q.also)
	if errors.Is(err, client.ErrNoNode) {
		return nil, q.ensure(ctx)
	}
	if err != nil {
		return nil, err
	}
	return []*client.Watch{list.Watch}, nil
}
