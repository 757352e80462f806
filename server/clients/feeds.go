package clients

import (
	"maps"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/server/feed"
)

// feeder gives the feeds of all connections what is added to the history. It has a goroutine while there are
// connections that have subscribed.
type feeder struct {
	history  *feed.History // nil for none
	places   feed.Places   // of the feeds, those of other doors too
	flushers *flushers
	changed  chan struct{} // capacity 1: the feeds are to be looked at

	mu      sync.Mutex
	writers map[*writer]struct{} // of these connections
	running bool
}

func newFeeder(history *feed.History, flushers *flushers) *feeder {
	f := &feeder{history: history, flushers: flushers, changed: make(chan struct{}, 1), writers: map[*writer]struct{}{}}
	f.places.Displaced = f.wake
	return f
}

// add makes the feeder look after a connection, until remove.
func (f *feeder) add(w *writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writers[w] = struct{}{}
	if !f.running {
		f.running = true
		f.flushers.running.Go(f.run)
	}
	f.wake()
}

func (f *feeder) remove(w *writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.writers[w]; ok {
		delete(f.writers, w)
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
	var list []*writer
	for {
		_, last := f.history.Span()
		if list = f.list(list); len(list) == 0 {
			return
		}
		more := false
		for _, w := range list {
			more = f.feed(w) || more
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
func (f *feeder) list(used []*writer) []*writer {
	clear(used)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = len(f.writers) > 0
	return slices.AppendSeq(used[:0], maps.Keys(f.writers))
}

// feed puts the next event of each feed of a connection into its buffer, and reports whether there is more.
func (f *feeder) feed(w *writer) (more bool) {
	w.line.Lock()
	defer w.line.Unlock()
	more = w.line.Feed()
	if out := w.line.Outbox.Unsent(); out != nil && out.Len() > 0 && !w.line.Outbox.Ends() {
		f.flushers.add(w)
	}
	return more
}
