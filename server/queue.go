package server

import "sync"

// keptItems is the number of items for which an empty queue keeps memory: a burst must
// not cost memory after its end.
const keptItems = 1024

// queue passes items from any number of goroutines to one that always takes all of them:
// batches form by themselves when that goroutine is busy. It has no bound: the producers
// bound the items. Each queue says how.
type queue[T any] struct {
	mu    sync.Mutex
	items []T
	bytes int64 // of items, and of those that are taken and not done
	taken int64 // bytes of the latter
	size  func(*T) int64
	ready chan struct{} // has a token when items may be there
}

// newQueue returns an empty queue. size returns an item's size in bytes; it is nil where
// nobody needs it.
func newQueue[T any](size func(*T) int64) *queue[T] {
	return &queue[T]{size: size, ready: make(chan struct{}, 1)}
}

// put appends items in order.
func (q *queue[T]) put(items ...T) {
	if len(items) == 0 {
		return
	}
	var bytes int64
	if q.size != nil {
		for i := range items {
			bytes += q.size(&items[i])
		}
	}
	q.mu.Lock()
	q.items = append(q.items, items...)
	q.bytes += bytes
	q.mu.Unlock()
	notify(q.ready)
}

// notify sends a token on a channel that has room for one.
func notify(ready chan struct{}) {
	select {
	case ready <- struct{}{}:
	default:
	}
}

// take returns all items, and gives the queue the memory of buf, which is empty, for the
// next ones. The caller waits on ready first; after a token the queue may still be empty.
func (q *queue[T]) take(buf []T) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items, q.taken = buf[:0], q.bytes
	return items
}

// done reports that the items taken last are processed, and returns their memory for
// take.
func (q *queue[T]) done(items []T) []T {
	q.mu.Lock()
	q.bytes -= q.taken
	q.taken = 0
	q.mu.Unlock()
	clear(items)
	if cap(items) > keptItems {
		return nil
	}
	return items[:0]
}

// len returns the number of waiting items.
func (q *queue[T]) len() int {
	n, _ := q.held()
	return n
}

// held returns the number of waiting items, and the bytes of these and of those that are
// taken and not done.
func (q *queue[T]) held() (items int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items), q.bytes
}
