package base

import "sync"

// KeptItems is the number of items for which an empty queue keeps memory: a burst must
// not cost memory after its end.
const KeptItems = 1024

// Queue passes items from any number of goroutines to one that always takes all of them:
// batches form by themselves when that goroutine is busy. It has no bound: the producers
// bound the items. Each queue says how.
type Queue[T any] struct {
	Ready chan struct{} // has a token when items may be there
	size  func(*T) int64

	mu    sync.Mutex
	items []T
	bytes int64 // of items, and of those that are taken and not done
	taken int64 // bytes of the latter
}

// NewQueue returns an empty queue. size returns an item's size in bytes; it is nil where
// nobody needs it.
func NewQueue[T any](size func(*T) int64) *Queue[T] {
	return &Queue[T]{size: size, Ready: make(chan struct{}, 1)}
}

// Put appends items in order.
func (q *Queue[T]) Put(items ...T) {
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
	Notify(q.Ready)
}

// Notify sends a token on a channel that has room for one.
func Notify(ready chan struct{}) {
	select {
	case ready <- struct{}{}:
	default:
	}
}

// Take returns all items, and gives the queue the memory of buf, which is empty, for the
// next ones. The caller waits on Ready first; after a token the queue may still be empty.
func (q *Queue[T]) Take(buf []T) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items, q.taken = buf[:0], q.bytes
	return items
}

// Done reports that the items taken last are processed, and returns their memory for
// Take.
func (q *Queue[T]) Done(items []T) []T {
	q.mu.Lock()
	q.bytes -= q.taken
	q.taken = 0
	q.mu.Unlock()
	clear(items)
	if cap(items) > KeptItems {
		return nil
	}
	return items[:0]
}

// Len returns the number of waiting items.
func (q *Queue[T]) Len() int {
	n, _ := q.Held()
	return n
}

// Held returns the number of waiting items, and the bytes of these and of those that are
// taken and not done.
func (q *Queue[T]) Held() (items int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items), q.bytes
}
