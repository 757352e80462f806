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

// entry is an item in the list.
type entry struct {
	name   string
	rank   int64 // a priority, or the time from which on it may be taken
	number int32
	slot   int64 // of a Bounded queue

	asked sync.Once
	node  *client.Future[client.Node]
}

// ask begins to read the item, once.
func (e *entry) ask(c *client.Client, dir string) {
	e.asked.Do(func() { e.node = c.Async().Get(line.Join(dir, e.name)) })
}

// read returns the item as it was when it was read, which may have been long ago.
func (e *entry) read(ctx context.Context, c *client.Client, dir string) (client.Node, error) {
	e.ask(c, dir)
	node, err := e.node.Wait(ctx)
	if err == nil || errors.Is(err, client.ErrNoNode) || ctx.Err() != nil {
		return node, err
	}
	node, err = c.Get(ctx, line.Join(dir, e.name)) // the connection broke
	return client.Node{Data: node.Data, Stat: node.Stat}, err
}

// window is how many items are read ahead at most, and how many of the first ones
// Options.Unordered takes from.
const window = 32

// stock is what is left of a list of items. It may be used from any goroutine.
type stock struct {
	c   *client.Client
	dir string
	// more, if not nil, gets a token when there may be items again.
	more chan struct{}

	mu      sync.Mutex
	entries []*entry // sorted
	ahead   int      // how many to read ahead; it grows while items are taken
}

// fill replaces the items.
func (s *stock) fill(entries []*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries, s.ahead = entries, 0
}

// pop takes out the first n items whose rank is not higher than most, or n of the first
// items at random if unordered is true, and begins to read them and the next ones.
func (s *stock) pop(n int, most int64, unordered bool) []*entry {
	taken, next := s.popped(n, most, unordered)
	for _, e := range slices.Concat(taken, next) {
		e.ask(s.c, s.dir)
	}
	return taken
}

// popped is pop without the reading. next has the items to be read ahead.
func (s *stock) popped(n int, most int64, unordered bool) (taken, next []*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(taken) < n && len(s.entries) > 0 && s.entries[0].rank <= most {
		if unordered { // any of the first takes the place of the first
			i := rand.IntN(min(len(s.entries), window))
			e := s.entries[i]
			copy(s.entries[1:i+1], s.entries[:i])
			s.entries[0] = e
		}
		taken = append(taken, s.entries[0])
		s.entries = s.entries[1:]
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

// drop removes an item that is gone.
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
