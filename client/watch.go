package client

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
)

// WatchType selects watches in CheckWatches and RemoveWatches.
type WatchType jute.WatchType

// The types of watches. Apache before 3.9 knows the first three.
const (
	ChildWatches      = WatchType(jute.WatchChildren)
	DataWatches       = WatchType(jute.WatchData) // of GetW and ExistsW
	AnyWatches        = WatchType(jute.WatchAny)
	PersistentWatches = WatchType(jute.WatchPersistent)
	RecursiveWatches  = WatchType(jute.WatchPersistentRecursive)
)

// watchKind is the kind of request that set a watch.
type watchKind = resume.Kind

const (
	watchData       = resume.Data
	watchExist      = resume.Exist
	watchChildren   = resume.Children
	watchPersistent = resume.Persistent
	watchRecursive  = resume.Recursive
	watchKinds      = resume.Kinds
)

func watchKindOf(mode WatchMode) watchKind {
	if mode == WatchRecursive {
		return watchRecursive
	}
	return watchPersistent
}

// Watch reports what happens at a path. A one-shot watch (of GetW, ExistsW, ChildrenW) gets
// one event, after which its channel is closed. A persistent watch (of AddWatch) gets events
// until it is closed.
//
// A watch outlives its connection: the client sets it again at the next server. A one-shot
// watch does not miss its event meanwhile. A persistent watch gets an EventRearmed, after
// which its owner should read again. When the session ends, the channel is closed without an
// event, and Err returns the reason.
type Watch struct {
	c      *Client
	path   string // as the caller passed it
	full   string // the servers' name of it
	kind   watchKind
	events *stream[Event] // nil with an inbox
	over   atomic.Bool    // see Fired
	// Guarded by session.mu.
	armed   bool // the server has it, or a wider watch that covers it
	issued  bool // the request that sets it has its place on the connection
	covered bool // the request does not set it, or sets a wider one
	lacking bool // the request did not set it, and nothing covers it: see watches.uncover
	err     atomic.Pointer[error]
}

// persistentBuffer is the capacity of the channel of a persistent watch.
const persistentBuffer = 16

func (c *Client) newWatch(path string, kind watchKind) *Watch {
	w := &Watch{c: c, path: path, kind: kind}
	switch {
	case c.inbox != nil:
	case kind.OneShot():
		w.events = newStream[Event](1)
	default:
		w.events = newStream[Event](persistentBuffer)
	}
	return w
}

// Path returns the path that the watch was set on.
func (w *Watch) Path() string { return w.path }

// Events returns the channel of events. It is closed after the one event of a one-shot watch,
// and when the watch or the session ends. No event is dropped before that, even if the
// channel is not read. With an Inbox, Events returns nil.
func (w *Watch) Events() <-chan Event {
	if w.events == nil {
		return nil
	}
	return w.events.ch
}

// Next waits for the next event. After the last one it returns Err, or ErrWatchFired if Err
// is nil.
func (w *Watch) Next(ctx context.Context) (Event, error) {
	select {
	case ev, ok := <-w.Events():
		if ok {
			return ev, nil
		}
	case <-ctx.Done():
		return Event{}, context.Cause(ctx)
	}
	if err := w.Err(); err != nil {
		return Event{}, err
	}
	return Event{}, ErrWatchFired
}

// Next returns ErrWatchFired for a one-shot watch whose event it has returned already.
// ErrWatchClosed means that the watch was closed.
var (
	ErrWatchFired  = errors.New("watch has fired")
	ErrWatchClosed = errors.New("watch is closed")
)

// Err returns the reason why the channel was closed without an event: ErrWatchClosed,
// ErrSessionExpired, ErrClosed or ErrAuthFailed. It returns nil before that, and if the watch
// has fired.
func (w *Watch) Err() error {
	if err := w.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Pending reports whether events have arrived that were not received from Events yet. If
// Pending returns false after a read from the servers, its owner has received all events up
// to that read. An empty channel alone does not prove that, because events that did not fit
// into it arrive a moment later.
func (w *Watch) Pending() bool {
	if w.events == nil {
		return w.c.inbox.Pending()
	}
	return w.events.pending()
}

// Fired reports whether a one-shot watch has had its event, received or not, or has ended.
// For a persistent watch it reports whether the watch has ended.
func (w *Watch) Fired() bool { return w.over.Load() }

// Close ends the watch: its channel is closed, and events that are not in it yet are dropped.
// If no other watch needs it, the watch is also removed at the server; the returned error is
// that of this request, and events may then still be sent, which the client ignores. Close is
// idempotent.
func (w *Watch) Close(ctx context.Context) error {
	s := w.c.s
	s.mu.Lock()
	known := s.watches.remove(w)
	s.mu.Unlock()
	if !known { // it has fired, or ended
		w.finish(true)
		return nil
	}
	w.end(ErrWatchClosed)
	if !s.stateIs(State.Connected) {
		return nil // it will not be set at the next server
	}
	return w.forget(ctx)
}

// forget removes a watch at the server if no other watch needs it.
func (w *Watch) forget(ctx context.Context) error {
	root := &Client{s: w.c.s}
	_, err := do(ctx, root, &root.s.table().forget, args{path: w.full, target: w})
	if errors.Is(err, ErrNoWatcher) || errors.Is(err, ErrConnectionLoss) {
		return nil // the server no longer has it
	}
	return err
}

// fire passes the watch an event of its path or, if it is recursive, of a path below.
func (w *Watch) fire(ev Event) {
	ev.Path = w.c.strip(ev.Path)
	if w.kind.OneShot() {
		w.over.Store(true) // set before the event can be received
	}
	if w.events == nil {
		w.c.inbox.notices.push(Notice{w, ev})
	} else {
		w.events.push(ev)
	}
	if w.kind.OneShot() {
		w.finish(false)
	}
}

// end closes the watch because of err. Events that are not in the channel yet are dropped, so
// that no goroutine waits for a reader.
func (w *Watch) end(err error) {
	w.err.CompareAndSwap(nil, &err)
	w.finish(true)
}

// finish closes the channel, at once or after the events that have been pushed.
func (w *Watch) finish(drop bool) {
	w.over.Store(true)
	if w.events != nil {
		w.events.end(drop)
	}
}
