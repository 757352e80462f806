package zk

import (
	"sync"

	"github.com/zkd-project/zkd/client"
)

// queue has the events that are to be delivered.
type queue struct {
	mu     sync.Mutex
	more   sync.Cond
	events []Event
	closed bool
}

func (q *queue) init() { q.more.L = &q.mu }

func (q *queue) push(ev Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events = append(q.events, ev)
	q.more.Signal()
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Signal()
}

// next waits for an event. It returns false after the last one.
func (q *queue) next() (Event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.events) == 0 {
		if q.closed {
			return Event{}, false
		}
		q.more.Wait()
	}
	ev := q.events[0]
	q.events = q.events[1:]
	return ev, true
}

// watches are the one-shot watches whose channels are open, and those whose event has come
// before the caller has the reply that says that they are set.
type watches struct {
	queue *queue
	inbox *client.Inbox

	mu   sync.Mutex
	open map[*client.Watch]chan Event
}

func (w *watches) init(c *Conn) {
	w.queue, w.inbox, w.open = &c.queue, client.NewInbox(), make(map[*client.Watch]chan Event)
}

// channel returns the channel of a watch that has been set.
func (w *watches) channel(x *client.Watch) <-chan Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch, told := w.open[x]
	if told {
		delete(w.open, x)
		return ch
	}
	ch = make(chan Event, 1)
	w.open[x] = ch
	if err := x.Err(); err != nil { // stateChanged may have come and gone
		w.endLocked(x, plain(err))
	}
	return ch
}

// tell passes an event to the events' channel, and to the watches that it has fired, which are
// in the inbox by now.
func (w *watches) tell(ev client.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ev.Type < client.EventCreated || ev.Type > client.EventChildrenChanged {
		return // of a persistent watch of package client
	}
	w.queue.push(eventOf(ev))
	for w.inbox.Pending() {
		n, ok := <-w.inbox.Events()
		if !ok {
			return
		}
		ch, known := w.open[n.Watch]
		if !known {
			ch = make(chan Event, 1)
		}
		ch <- eventOf(n.Event)
		close(ch)
		if known {
			delete(w.open, n.Watch)
		} else {
			w.open[n.Watch] = ch
		}
	}
}

func eventOf(ev client.Event) Event {
	return Event{Type: EventType(ev.Type), State: StateSyncConnected, Path: ev.Path}
}

// end ends the watches of a session that has ended.
func (w *watches) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for x := range w.open {
		if x.Err() != nil {
			w.endLocked(x, err)
		}
	}
}

func (w *watches) endLocked(x *client.Watch, err error) {
	ev := Event{Type: EventNotWatching, State: StateDisconnected, Path: x.Path(), Err: err}
	w.queue.push(ev)
	w.open[x] <- ev
	close(w.open[x])
	delete(w.open, x)
}
