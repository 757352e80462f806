package cache

import (
	"context"
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
)

// shots are the one-shot watches of a cache that has no persistent one: of each
// node one on its data and one on its children. A goroutine waits for each.
type shots struct {
	use bool // there are such
	ctx context.Context
	wg  *sync.WaitGroup
	set map[shot]*client.Watch // those that have not been heard

	*firedShots
}

// shot is what a one-shot watch is of.
type shot struct {
	path     string
	children bool
}

// firedShots are watches that have had their events, to be taken by the loop.
type firedShots struct {
	wake chan struct{} // capacity 1: there are some
	mu   sync.Mutex
	all  []firedShot
}

type firedShot struct {
	shot
	watch *client.Watch
}

func newShots(k *Cache, ctx context.Context) shots {
	return shots{
		use: k.opts.OneShot, ctx: ctx, wg: &k.wg, set: map[shot]*client.Watch{},
		firedShots: &firedShots{wake: make(chan struct{}, 1)},
	}
}

// reset forgets all watches, which the client has closed with the session.
func (s *shots) reset() { clear(s.set) }

func (s *shots) has(path string, children bool) bool {
	return s.set[shot{path, children}] != nil
}

// add takes on a watch that a read has set. Until it fires no other is needed.
func (s *shots) add(path string, children bool, w *client.Watch) {
	sh := shot{path, children}
	s.set[sh] = w
	ctx, f := s.ctx, s.firedShots
	s.wg.Go(func() {
		select {
		case _, ok := <-w.Events():
			if ok {
				f.push(firedShot{sh, w})
			}
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = w.Close(ctx) // the server may keep it until it fires, which nobody hears
		}
	})
}

func (f *firedShots) push(x firedShot) {
	f.mu.Lock()
	f.all = append(f.all, x)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns what has fired since it was last asked.
func (s *shots) take() []shot {
	s.mu.Lock()
	all := s.all
	s.all = nil
	s.mu.Unlock()
	var fired []shot
	for _, x := range all {
		if s.set[x.shot] == x.watch { // not a second time after poll
			delete(s.set, x.shot)
			fired = append(fired, x.shot)
		}
	}
	return fired
}

// poll finds the watches that have fired and that their goroutines have not
// reported yet. take will return them.
func (s *shots) poll() {
	for sh, w := range s.set {
		if w.Fired() {
			s.push(firedShot{sh, w})
		}
	}
}
