package cache

import (
	"context"
	"sync"

	"github.com/zkd-project/zkd/client"
)

// shots are the one-shot watches of a cache without a persistent watch: one on the data and
// one on the children of each node.
type shots struct {
	use bool                   // the cache uses one-shot watches
	set map[shot]*client.Watch // watches whose events have not been handled
}

// shot identifies what a one-shot watch is on.
type shot struct {
	path     string
	children bool
}

// reset forgets all watches: the client has closed them with the session.
func (s *shots) reset() { clear(s.set) }

func (s *shots) has(path string, children bool) bool {
	return s.set[shot{path, children}] != nil
}

// add records a watch that a read has set. No other is needed until it fires. Its event may
// arrive before the read's result, and is then not found here: so add returns false if the
// watch has fired.
func (s *shots) add(sh shot, w *client.Watch) bool {
	if w.Fired() {
		return false
	}
	s.set[sh] = w
	return true
}

// fired removes a watch that has fired, and returns what it was on. It returns false if the
// watch is not recorded.
func (s *shots) fired(w *client.Watch) (sh shot, ok bool) {
	for _, children := range []bool{false, true} {
		sh = shot{w.Path(), children}
		if s.set[sh] == w {
			delete(s.set, sh)
			return sh, true
		}
	}
	return sh, false
}

// closers is the number of watches that are closed concurrently.
const closers = 64

// close makes the server remove all watches, until ctx ends.
func (s *shots) close(ctx context.Context) {
	all := make(chan *client.Watch)
	var work sync.WaitGroup
	for range min(closers, len(s.set)) {
		work.Go(func() {
			for w := range all {
				_ = w.Close(ctx) // the server may keep it until it fires, without effect
			}
		})
	}
	for _, w := range s.set {
		all <- w
	}
	close(all)
	work.Wait()
}
