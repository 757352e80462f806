package line

import (
	"sync/atomic"

	"github.com/zkd-project/zkd/server/clients/line/pending"
)

// Waiting has the requests of a line that are not answered, from the first one on that is ordered. The host's lock
// guards it, except for Len.
type Waiting struct {
	queue  pending.Queue[Request]
	number atomic.Int32 // length of queue; only the reader raises it
}

// Len returns how many requests wait. It may be called from any goroutine.
func (w *Waiting) Len() int { return int(w.number.Load()) }

// All returns the requests, oldest first. They are valid while the lock is held.
func (w *Waiting) All() []Request { return w.queue.All() }

// Rest frees memory of a line that is idle.
func (w *Waiting) Rest() { w.queue.Clear() }

// push appends a request, and returns the service in which it has to be submitted.
func (w *Waiting) push(req Request) (service uint64) {
	w.number.Add(1)
	return w.queue.Push(req)
}

// drop removes the oldest request, and returns what it counted for.
func (w *Waiting) drop() (large, size int64) {
	req := w.queue.Front()
	large, size = req.Large, req.Size()
	w.queue.Pop(1)
	w.number.Add(-1)
	return large, size
}
