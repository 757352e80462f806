package clients

import (
	"net"
	"runtime"
	"slices"
	"sync"
)

// flushers write to the sockets what others than the readers have put into out buffers: answers to
// writes, and events. No connection has a goroutine for that. A few goroutines, at most one for each
// processor, take the waiting connections in parts and write what the network takes at once. Only
// for a connection whose client does not read, or whose stream has to be waited for, one is
// started, which ends when all is written.
type flushers struct {
	running *sync.WaitGroup // of the connections' goroutines
	most    int             // at the same time

	mu      sync.Mutex
	waiting []*conn // each once: see conn.waits
	started int     // that have not ended
}

// flushPart is how many connections a flusher takes at a time. A second flusher starts only if more
// wait: waking it costs as much as some writes.
const flushPart = 16

func newFlushers(running *sync.WaitGroup) *flushers {
	return &flushers{running: running, most: runtime.GOMAXPROCS(0)}
}

// add has the out buffers of the connections written. The caller is in the group of goroutines, or
// keeps it from being empty.
func (f *flushers) add(conns ...*conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		if !c.waits {
			c.waits = true
			f.waiting = append(f.waiting, c)
		}
	}
	for want := min(f.most, (len(f.waiting)+flushPart-1)/flushPart); f.started < want; f.started++ {
		f.running.Go(f.run)
	}
}

// run writes until no connection waits.
func (f *flushers) run() {
	var part [flushPart]*conn
	w := newDirectWriter()
	for n := f.take(part[:]); n > 0; n = f.take(part[:]) {
		for _, c := range part[:n] {
			if !c.flushNow(w) {
				f.running.Go(c.flush)
			}
		}
	}
}

// take takes the connections that have waited longest. If there are none, the caller has to end.
func (f *flushers) take(part []*conn) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := copy(part, f.waiting)
	for _, c := range part[:n] {
		c.waits = false // what is put into its out buffer from now on may come too late for this flusher
	}
	f.waiting = slices.Delete(f.waiting, 0, n)
	if n == 0 {
		f.started--
	}
	return n
}

// flushNow writes the out buffer without waiting. It returns false if only flush can do that. If the
// network does not take all of it, another goroutine writes the rest.
func (c *conn) flushNow(w *directWriter) bool {
	tcp, ok := c.stream.(*net.TCPConn)
	if !ok || w == nil {
		return false
	}
	for out := c.takeOut(); out != nil; {
		if len(out.Full()) > 0 || out.Audited != 0 {
			c.clients.running.Go(func() { c.writeOut(out) })
			return true
		}
		n, err := w.write(tcp, out.Last())
		c.clients.metrics.BytesSent.Add(int64(n))
		if l := c.limited.Load(); l != nil {
			l.Sent(int64(n))
		}
		if n < len(out.Last()) && err == nil {
			out.Written(n)
			c.clients.running.Go(func() { c.writeOut(out) })
			return true
		}
		c.releaseOut(out)
		out = c.nextOut(err)
	}
	return true
}
