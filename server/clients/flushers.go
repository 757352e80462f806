package clients

import (
	"runtime"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/internal/sockets"
)

// flushers write to the sockets what others than the readers have put into buffers: answers to
// writes, and events. No connection has a goroutine for that. A few goroutines, at most one for each
// processor, take the waiting connections in parts and write what the network takes at once. Only
// for a connection whose client does not read, or whose stream has to be waited for, one is
// started, which ends when all is written.
type flushers struct {
	running *sync.WaitGroup // of the connections' goroutines
	most    int             // at the same time

	mu      sync.Mutex
	waiting []*writer // each once: see writer.waits
	started int       // that have not ended
}

// flushPart is how many connections a flusher takes at a time. A second flusher starts only if more
// wait: waking it costs as much as some writes.
const flushPart = 16

func newFlushers(running *sync.WaitGroup) *flushers {
	return &flushers{running: running, most: runtime.GOMAXPROCS(0)}
}

// add has the buffers of connections written. The caller is in the group of goroutines, or
// keeps it from being empty.
func (f *flushers) add(list ...*writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range list {
		if !w.waits {
			w.waits = true
			f.waiting = append(f.waiting, w)
		}
	}
	for want := min(f.most, (len(f.waiting)+flushPart-1)/flushPart); f.started < want; f.started++ {
		f.running.Go(f.run)
	}
}

// run writes until no connection waits.
func (f *flushers) run() {
	var part [flushPart]*writer
	direct := sockets.NewDirect()
	for n := f.take(part[:]); n > 0; n = f.take(part[:]) {
		for _, w := range part[:n] {
			if !w.flushNow(direct) {
				f.running.Go(w.flush)
			}
		}
	}
}

// take takes the writers that have waited longest. If there are none, the caller has to end.
func (f *flushers) take(part []*writer) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := copy(part, f.waiting)
	for _, w := range part[:n] {
		w.waits = false // what is put into its buffer from now on may come too late for this flusher
	}
	f.waiting = slices.Delete(f.waiting, 0, n)
	if n == 0 {
		f.started--
	}
	return n
}
