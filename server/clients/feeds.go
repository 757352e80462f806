package clients

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/zkd-project/zkd/server/feed"
)

// feeder gives the feeds of all connections what is added to the history. It has a goroutine while there are
// connections that have subscribed.
//
// What a change costs is mostly to send something to each feed, and not what is sent. So after each round the feeder rests, the
// longer the more connections it has sent something, and changes that come meanwhile are sent together: see restAfter. The feeds
// of a client that has used up its rate of bytes wait for that, by themselves.
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
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		_, last := f.history.Span()
		if list = f.list(list); len(list) == 0 {
			return
		}
		more, fed, due := false, 0, time.Duration(0)
		for _, w := range list {
			if wait := w.limits.settle(); wait > 0 {
				due = min(cmp.Or(due, wait), wait)
				continue
			}
			behind, sent := f.feed(w)
			more = behind || more
			if sent {
				fed++
			}
		}
		if more {
			continue
		}
		if d := restAfter(fed, runtime.GOMAXPROCS(0)); d > 0 {
			timer.Reset(d)
			<-timer.C
		}
		if due > 0 { // when the first of the feeds that wait for a rate need not wait any more
			timer.Reset(max(due, leastPause))
		}
		select {
		case <-f.history.More(last):
		case <-f.changed:
		case <-timer.C:
		}
	}
}

const (
	fewFed = 4 // connections, for which there is no rest
	// feedTime is what a connection that gets something adds to the rest, on one processor: each one sends to feeds at
	// most 2,500 times a second. That takes a server some 10 µs each time, and the client as much.
	feedTime = 400 * time.Microsecond
	longRest = 50 * time.Millisecond
)

// restAfter returns how long the feeder waits after a round in which it has sent something to this many connections.
func restAfter(fed, processors int) time.Duration {
	if fed < fewFed {
		return 0
	}
	return min(time.Duration(fed)*feedTime/time.Duration(processors), longRest)
}

// list returns the connections in the memory of used. If there are none, the goroutine has to end.
func (f *feeder) list(used []*writer) []*writer {
	clear(used)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = len(f.writers) > 0
	return slices.AppendSeq(used[:0], maps.Keys(f.writers))
}

// feed puts the next event of each feed of a connection into its buffer. It reports whether there is more, and whether
// there is something to be sent.
func (f *feeder) feed(w *writer) (more, sent bool) {
	w.line.Lock()
	defer w.line.Unlock()
	more = w.line.Feed()
	if out := w.line.Outbox.Unsent(); out != nil && out.Len() > 0 && !w.line.Outbox.Ends() {
		f.flushers.add(w)
		sent = true
	}
	return more, sent
}
