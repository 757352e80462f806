package cache

import (
	"context"
	"sync"

	"github.com/zkd-project/zkd/client"
)

// shots are the one-shot watches of a cache that has no persistent one: of each
// node one on its data and one on its children.
type shots struct {
	use bool                   // there are such
	set map[shot]*client.Watch // those whose events have not been heard
}

// shot is what a one-shot watch is of.
type shot struct {
	path     string
	children bool
}

// reset forgets all watches, which the client has closed with the session.
func (s *shots) reset() { clear(s.set) }

func (s *shots) has(path string, children bool) bool {
	return s.set[shot{path, children}] != nil
}

// add takes on a watch that a read has set. Until it fires no other is needed. Its
// event may come before the read's result, and be none of these watches' then: so add
// reports false if it has fired.
func (s *shots) add(sh shot, w *client.Watch) bool {
	if w.Fired() {
		return false
	}
	s.set[sh] = w
	return true
}

// fired takes out a watch that has had its event, and returns what it was of. It
// reports false of one that is none of these any more.
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

// closers is how many watches are closed at a time.
const closers = 64

// close makes the server forget all watches, as far as ctx lets it.
func (s *shots) close(ctx context.Context) {
	all := make(chan *client.Watch)
	var work sync.WaitGroup
	for range min(closers, len(s.set)) {
		work.Go(func() {
			for w := range all {
				_ = w.Close(ctx) // the server may keep it until it fires, which nobody hears
			}
		})
	}
	for _, w := range s.set {
		all <- w
	}
	close(all)
	work.Wait()
}
