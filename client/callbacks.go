package client

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// callbacks runs the user's functions, one after the other, in a goroutine that exists while
// there are any. It logs functions that block.
type callbacks struct {
	log  Logger
	slow time.Duration

	mu      sync.Mutex
	queue   []callback
	running bool
	current callback
	behind  int         // functions taken by run that wait for current
	since   time.Time   // when current began
	told    bool        // the log has reported that current is slow
	watch   *time.Timer // calls look while running
}

// callback is one function to run: that of result, or fn. op and path identify it in the log.
type callback struct {
	result result
	fn     func()
	op     string
	path   string
}

func (q *callbacks) push(cb callback) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, cb)
	if q.running {
		return
	}
	q.running = true
	q.since, q.told = time.Now(), false
	if q.watch == nil {
		q.watch = time.AfterFunc(q.slow, q.look)
	} else {
		q.watch.Reset(q.slow)
	}
	go q.run()
}

func (q *callbacks) run() {
	for {
		q.mu.Lock()
		batch := q.queue
		q.queue = nil
		if len(batch) == 0 {
			q.running, q.current = false, callback{}
			q.watch.Stop()
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		for i := range batch {
			q.runOne(batch[i], len(batch)-i-1)
			batch[i] = callback{}
		}
	}
}

func (q *callbacks) runOne(cb callback, behind int) {
	q.mu.Lock()
	q.current, q.behind, q.since, q.told = cb, behind, time.Now(), false
	q.mu.Unlock()
	if cb.result != nil {
		cb.result.callback()
		return
	}
	cb.fn()
}

// look logs the running callback if it is slow.
func (q *callbacks) look() {
	q.mu.Lock()
	if !q.running {
		q.mu.Unlock()
		return
	}
	took := time.Since(q.since)
	if took < q.slow {
		q.watch.Reset(q.slow - took)
		q.mu.Unlock()
		return
	}
	again := q.told
	q.told = true
	cb, waiting := q.current, q.behind+len(q.queue)
	q.watch.Reset(q.slow)
	q.mu.Unlock()
	if !again { // without the lock: the session waits for it while it holds its own
		q.log.Log(context.Background(), slog.LevelWarn, "callback blocks: all others wait for it",
			"op", cb.op, "path", cb.path, "for", took, "waiting", waiting)
	}
}
