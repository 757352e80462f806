package server

import "sync"

// queue hands items from any number of goroutines to one that always takes
// everything there is: batches form by themselves when the taker is busy.
// It has no bound of its own; what goes in is bounded where it comes from
// (globalOutstandingLimit, one barrier for each connection).
type queue[T any] struct {
	mu    sync.Mutex
	items []T
	ready chan struct{} // has a token when items may be there
}

func newQueue[T any]() *queue[T] { return &queue[T]{ready: make(chan struct{}, 1)} }

// put appends items in order.
func (q *queue[T]) put(items ...T) {
	if len(items) == 0 {
		return
	}
	q.mu.Lock()
	q.items = append(q.items, items...)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns all items and gives the queue buf's memory for the next ones.
// The caller waits on ready first; a token may find the queue empty.
func (q *queue[T]) take(buf []T) []T {
	clear(buf)
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items = buf[:0]
	return items
}

// len returns how many items wait.
func (q *queue[T]) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}
