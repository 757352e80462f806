package cache

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/subtrees"
)

// EventType is the type of an event of a cache.
type EventType int

// The types of events.
const (
	// Added means that Node is new in the cache.
	Added EventType = iota + 1
	// Changed means that Old was replaced by Node: its data, or only its Stat, as for a
	// parent when a child is created or deleted.
	Changed
	// Removed means that Node was deleted; it is the last known state. The nodes below it
	// were removed before. A node that was deleted and created again is Removed, then Added.
	Removed
	// Ready means that everything has been read once. It comes once.
	Ready
	// Stale means that the connection is lost: see Cache.Stale.
	Stale
	// Fresh follows Stale when all that changed meanwhile is in the cache.
	Fresh
	// Unreadable means that the client may not read the node at Node.Path. Neither it nor the
	// nodes below it are cached. It comes once until the node can be read.
	Unreadable
	// Closed means that the cache has ended; Err has the reason. It is the last event.
	Closed
)

var typeNames = [...]string{"?", "added", "changed", "removed", "ready", "stale", "fresh", "unreadable", "closed"}

// String returns the name in lower case.
func (t EventType) String() string {
	if t <= 0 || int(t) >= len(typeNames) {
		return fmt.Sprintf("EventType(%d)", int(t))
	}
	return typeNames[t]
}

// Event is one change of a cache.
type Event struct {
	Type EventType
	Node Node
	Old  Node  // only of Changed
	Err  error // of Closed, Unreadable, and Stale
}

// DataChanged reports whether a Changed event is about the data, not only about the Stat.
func (e Event) DataChanged() bool {
	return e.Type == Changed && e.Old.Stat.Mzxid != e.Node.Stat.Mzxid
}

// String returns a short description of the event.
func (e Event) String() string {
	s := e.Type.String()
	if e.Node.Path != "" {
		s += " " + e.Node.Path
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// subscription passes all events to one listener, in order. Events that the listener has not
// taken yet wait in a queue.
type subscription struct {
	mu    sync.Mutex
	queue []Event
	ended bool          // nothing follows the queue
	wake  chan struct{} // capacity 1: look at the queue
	gone  chan struct{} // closed by drop
	once  sync.Once
}

func newSubscription() *subscription {
	return &subscription{wake: make(chan struct{}, 1), gone: make(chan struct{})}
}

func (s *subscription) push(evs ...Event) {
	s.mu.Lock()
	s.queue = append(s.queue, evs...)
	s.mu.Unlock()
	s.poke()
}

func (s *subscription) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.poke()
}

func (s *subscription) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// drop discards the events that have not been taken.
func (s *subscription) drop() { s.once.Do(func() { close(s.gone) }) }

// take returns the queued events, and waits if there are none. It returns nil at the end.
func (s *subscription) take() []Event {
	for {
		s.mu.Lock()
		evs, ended := s.queue, s.ended
		s.queue = nil
		s.mu.Unlock()
		if len(evs) > 0 || ended {
			return evs
		}
		select {
		case <-s.wake:
		case <-s.gone:
			return nil
		}
	}
}

// each calls fn for each event until fn returns false or the events end.
func (s *subscription) each(fn func(Event) bool) {
	for evs := s.take(); evs != nil; evs = s.take() {
		for i := range evs {
			if !fn(evs[i]) {
				return
			}
			evs[i] = Event{}
		}
	}
}

// Events returns a channel of all further events. It begins with an Added for each node that
// is in the cache already, parents first, and a Ready if the cache is ready, so the events
// alone are enough to rebuild its contents. No event is dropped, and none is merged with
// another: events that are not received take memory. The channel is closed after Closed, when
// ctx ends, and by Close, which drops what has not been received.
func (k *Cache) Events(ctx context.Context) <-chan Event {
	ch := make(chan Event, 16)
	s := k.subscribe()
	stop := context.AfterFunc(ctx, s.drop)
	k.listen(s, func() {
		defer close(ch)
		defer stop()
		s.each(func(ev Event) bool {
			select {
			case ch <- ev:
				return true
			case <-s.gone:
				return false
			}
		})
	})
	return ch
}

// OnEvent calls fn for each event, as Events sends them, one after the other in a separate
// goroutine, until stop is called. fn may block, and may call any method except Close. stop
// does not wait for fn.
func (k *Cache) OnEvent(fn func(Event)) (stop func()) {
	s := k.subscribe()
	k.listen(s, func() {
		s.each(func(ev Event) bool {
			select {
			case <-s.gone:
				return false
			default:
				fn(ev)
				return true
			}
		})
	})
	return s.drop
}

// subscribe makes a subscription that begins with the current contents.
func (k *Cache) subscribe() *subscription {
	s := newSubscription()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, n := range k.listLocked(k.tree.Path) {
		s.queue = append(s.queue, Event{Type: Added, Node: n})
	}
	for _, path := range slices.Sorted(maps.Keys(k.unreadable)) {
		s.queue = append(s.queue, Event{Type: Unreadable, Node: Node{Path: path}, Err: k.unreadable[path]})
	}
	if k.isReady {
		s.queue = append(s.queue, Event{Type: Ready})
		if !k.stale.IsZero() {
			s.queue = append(s.queue, Event{Type: Stale})
		}
	}
	if k.err != nil {
		s.queue = append(s.queue, Event{Type: Closed, Err: k.err})
		s.ended = true
	}
	k.subs[s] = struct{}{}
	return s
}

// listen runs the goroutine of a subscription.
func (k *Cache) listen(s *subscription, run func()) {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		s.drop()
		run()
		return
	}
	k.subs[s] = struct{}{}
	k.wg.Go(func() {
		defer func() {
			k.mu.Lock()
			delete(k.subs, s)
			k.mu.Unlock()
		}()
		run()
	})
	k.mu.Unlock()
}

// tellLocked passes an event to all subscribers.
func (k *Cache) tellLocked(ev Event) {
	for s := range k.subs {
		s.push(ev)
	}
}

func (k *Cache) tellAddedLocked(n *subtrees.Node, path string) {
	if len(k.subs) > 0 {
		k.tellLocked(Event{Type: Added, Node: nodeAt(n, path)})
	}
}

func (k *Cache) tellRemovedLocked(n *subtrees.Node, path string) {
	if len(k.subs) > 0 {
		k.tellLocked(Event{Type: Removed, Node: nodeAt(n, path)})
	}
}

// setLocked changes a node and sends an event if there is a difference.
func (k *Cache) setLocked(n *subtrees.Node, path string, data []byte, stat client.Stat) {
	if n.Stat == stat {
		return
	}
	old := *n
	k.tree.Set(n, data, stat)
	if len(k.subs) > 0 {
		k.tellLocked(Event{Type: Changed, Node: nodeAt(n, path), Old: nodeAt(&old, path)})
	}
}
