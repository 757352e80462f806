package clients

import (
	"maps"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/server/feed"
)

// feed puts the next event of each feed into the buffer, and reports whether there is more.
func (c *conn) feed() (more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	more = c.line.Feed()
	if out := c.line.Out(); out != nil && out.Len() > 0 && !c.line.Ends() {
		c.clients.flushers.add(c)
	}
	return more
}

// feeder gives the feeds of all connections what is added to the history. It has a goroutine while there are
// connections that have subscribed.
type feeder struct {
	history *feed.History // nil for none
	changed chan struct{} // capacity 1: the feeds are to be looked at

	mu      sync.Mutex
	conns   map[*conn]struct{}
	running bool
}

func newFeeder(history *feed.History) *feeder {
	return &feeder{history: history, changed: make(chan struct{}, 1), conns: map[*conn]struct{}{}}
}

// add makes the feeder look after a connection, until remove.
func (f *feeder) add(c *conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns[c] = struct{}{}
	if !f.running {
		f.running = true
		c.clients.running.Go(f.run)
	}
	f.wake()
}

func (f *feeder) remove(c *conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.conns[c]; ok {
		delete(f.conns, c)
		f.wake()
	}
}

// wake makes the feeder look at all feeds.
func (f *feeder) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *feeder) run() {
	var conns []*conn
	for {
		_, last := f.history.Span()
		if conns = f.list(conns); len(conns) == 0 {
			return
		}
		more := false
		for _, c := range conns {
			more = c.feed() || more
		}
		if more {
			continue
		}
		select {
		case <-f.history.More(last):
		case <-f.changed:
		}
	}
}

// list returns the connections in the memory of used. If there are none, the goroutine has to end.
func (f *feeder) list(used []*conn) []*conn {
	clear(used)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = len(f.conns) > 0
	return slices.AppendSeq(used[:0], maps.Keys(f.conns))
}
