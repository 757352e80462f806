package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/recipes/internal/line"
)

// entry is an item as seen in the list.
type entry struct {
	name   string
	rank   int64 // a priority, or the time from which on it may be taken
	number int32
	slot   int64 // of a Bounded queue

	asked sync.Once
	node  *client.Future[client.Node]
}

// ask begins to read the item, if that was not done yet.
func (e *entry) ask(c *client.Client, dir string) {
	e.asked.Do(func() { e.node = c.Async().Get(line.Join(dir, e.name)) })
}

// read returns the item as it was when it was read, which may be a while ago.
func (e *entry) read(ctx context.Context, c *client.Client, dir string) (client.Node, error) {
	e.ask(c, dir)
	node, err := e.node.Wait(ctx)
	if err == nil || errors.Is(err, client.ErrNoNode) || ctx.Err() != nil {
		return node, err
	}
	node2, err := c.Get(ctx, line.Join(dir, e.name)) // the connection broke
	return client.Node{Data: node2.Data, Stat: node2.Stat}, err
}

// Reading ahead begins with one item and goes on to this many, if items are taken one
// after the other. window is also what Options.Unordered takes from.
const window = 32

// stock is what is left of a list of items. It may be used from any goroutine.
type stock struct {
	c   *client.Client
	dir string
	// more, if not nil, tells whoever waits that there is something again.
	more chan struct{}

	mu      sync.Mutex
	entries []*entry // sorted
	ahead   int      // how many to read ahead
}

// fill replaces what is there.
func (s *stock) fill(entries []*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries, s.ahead = entries, 0
}

// pop takes out the first n items that are ready, any of the first if any is true.
// ready may be nil.
func (s *stock) pop(n int, some bool, ready func(*entry) bool) []*entry {
	taken, next := s.popped(n, some, ready)
	for _, e := range taken {
		e.ask(s.c, s.dir)
	}
	for _, e := range next {
		e.ask(s.c, s.dir)
	}
	return taken
}

// popped is pop without the reading. next has the items to be read ahead.
func (s *stock) popped(n int, some bool, ready func(*entry) bool) (taken, next []*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !some {
		n = min(n, len(s.entries))
		for len(taken) < n && (ready == nil || ready(s.entries[len(taken)])) {
			taken = append(taken, s.entries[len(taken)])
		}
		s.entries = s.entries[len(taken):]
	}
	for some && len(taken) < n && len(s.entries) > 0 {
		i := rand.IntN(min(len(s.entries), window))
		taken = append(taken, s.entries[i])
		s.entries = slices.Delete(s.entries, i, i+1)
	}
	next = slices.Clone(s.entries[:min(s.ahead, len(s.entries))])
	s.ahead = min(2*s.ahead+1, window)
	return taken, next
}

// put adds items, or puts them back.
func (s *stock) put(entries ...*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		i, found := slices.BinarySearchFunc(s.entries, e, compare)
		if !found {
			s.entries = slices.Insert(s.entries, i, e)
		}
	}
	select {
	case s.more <- struct{}{}: // never, if it is nil
	default:
	}
}

// drop takes an item out that is gone.
func (s *stock) drop(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, found := slices.BinarySearchFunc(s.entries, e, compare); found {
		s.entries = slices.Delete(s.entries, i, i+1)
	}
}

// first returns the first item without taking it out, or nil.
func (s *stock) first() *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.entries) == 0 {
		return nil
	}
	return s.entries[0]
}
