package cache

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/zkd-project/zkd/client"
)

// retryAfter is the pause before a read is repeated that failed at the server; lagPause is
// how long a new session waits for a server that is behind.
const (
	retryAfter = 200 * time.Millisecond
	lagPause   = 50 * time.Millisecond
)

// loop is the goroutine that keeps a cache up to date. It owns all fields that are not in
// Cache.
type loop struct {
	*Cache
	ctx    context.Context
	states <-chan client.StateChange

	inbox *client.Inbox  // of all watches
	set   *client.Client // the view that sets them, through inbox
	watch *client.Watch  // the persistent watch; nil with one-shot watches
	shots shots          // the one-shot watches

	armed bool // the session has the watches
	down  bool // the connection was lost, and the next one not handled yet
	gen   uint32
	// conn is when the connection was made on which everything was last read, or is being
	// read. On another connection events may have been missed, even if its change of state
	// has not arrived yet.
	conn  time.Time
	held  []func()    // syncs that wait until everything is read on another connection
	seen  client.Zxid // zxid that the client had seen when the cache last looked
	work  work
	again []*task // reads to be repeated, after a pause
	pause *time.Timer
	// denied has the unreadable nodes that were reported, with the generation in which they
	// were last found unreadable.
	denied map[string]uint32
	hidden string // the path of the servers' own nodes in the client's view
	fatal  error  // ends the loop
}

func newLoop(k *Cache, ctx context.Context) *loop {
	l := &loop{
		Cache: k, ctx: ctx, states: k.client.Session().States(ctx), work: newWork(), denied: map[string]uint32{},
		shots: shots{use: k.opts.OneShot, set: map[shot]*client.Watch{}}, inbox: client.NewInbox(), pause: time.NewTimer(0),
	}
	l.set = k.client.WithInbox(l.inbox)
	if k.client.Root() == "" {
		l.hidden = systemPath
	}
	return l
}

// systemPath is the path of the servers' own nodes. Some of them change without an event.
const systemPath = "/zookeeper"

// run keeps the cache up to date until it is closed or the session has ended.
func (l *loop) run() {
	defer l.pause.Stop()
	err := l.arm()
	if err == nil {
		l.rescan()
		err = l.follow()
	}
	if l.ctx.Err() != nil {
		err = ErrClosed
	}
	l.mu.Lock()
	l.err = err
	if l.stale.IsZero() {
		l.stale = time.Now()
	}
	l.tellLocked(Event{Type: Closed, Err: err})
	for s := range l.subs {
		s.end()
	}
	l.mu.Unlock()
	close(l.finished)
	l.cancel()
	l.disarm()
}

// follow is the main loop.
func (l *loop) follow() error {
	for {
		l.issue()
		l.work.release()
		l.settle()
		if l.fatal != nil {
			return l.fatal
		}
		var landed <-chan struct{}
		if len(l.work.flights) > 0 {
			landed = l.work.flights[0].done()
		}
		select {
		case <-l.ctx.Done():
			return ErrClosed
		case <-landed:
			l.land()
		case n := <-l.inbox.Events():
			l.hear(n)
		case s, ok := <-l.states:
			if !ok {
				return ErrClosed
			}
			l.land() // reads that failed when the state changed
			if err := l.state(s); err != nil {
				return err
			}
		case done := <-l.syncs:
			l.sync(func() { done <- struct{}{} })
		case <-l.pause.C:
			l.work.resume(l.again)
			l.again = nil
		}
	}
}

// --- Connection

// state handles a change of the session's state.
func (l *loop) state(s client.StateChange) error {
	switch s.To {
	case client.StateSuspended:
		l.down = true
		l.setStale(s.Err)
	case client.StateExpired:
		l.down, l.armed = true, false
		l.setStale(s.Err)
		return l.over()
	case client.StateConnected, client.StateReadOnly:
		if !l.down {
			return nil
		}
		if !l.armed {
			if err := l.arm(); err != nil {
				return err
			}
		}
		l.down = false
		l.rescan()
	case client.StateAuthFailed, client.StateClosed:
		return l.over()
	}
	return nil
}

// over returns the reason why the session has ended, or nil.
func (l *loop) over() error {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	err := l.client.WaitConnected(ended)
	if e, ok := errors.AsType[*client.ConnectError](err); ok && e.Err != context.Canceled {
		return e
	}
	return nil
}

// arm sets the session's watch, and then begins to read everything. A new session may be on a
// server that is behind the cache: arm waits until the server has caught up.
func (l *loop) arm() error {
	for {
		if err := l.client.WaitConnected(l.ctx); err != nil {
			return err
		}
		err := l.client.Sync(l.ctx, l.tree.path)
		if err == nil && l.client.Status().LastZxid < l.seen {
			if sleep(l.ctx, lagPause) != nil {
				return ErrClosed
			}
			continue
		}
		if err == nil || !passing(err) {
			err = l.addWatch()
		}
		switch {
		case err == nil:
			l.armed = true
			return nil
		case !passing(err):
			return err
		}
	}
}

func (l *loop) addWatch() error {
	l.shots.reset()
	if l.shots.use {
		return nil
	}
	mode := client.WatchRecursive
	if l.opts.Depth == NodeOnly {
		mode = client.WatchPersistent
	}
	w, err := l.set.AddWatch(l.ctx, l.tree.path, mode)
	if errors.Is(err, client.ErrUnimplemented) {
		l.shots.use = true
		return nil
	}
	if err == nil {
		l.watch = w
	}
	return err
}

// disarm makes the server remove the watches.
func (l *loop) disarm() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if l.watch != nil {
		_ = l.watch.Close(ctx) // the server may send further events, which the client ignores
	}
	l.shots.close(ctx)
	l.inbox.Close()
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// setStale records that the cache can't be kept up to date.
func (l *loop) setStale(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stale.IsZero() {
		return
	}
	l.stale = time.Now()
	if l.isReady {
		l.tellLocked(Event{Type: Stale, Err: err})
	}
}

// rescan reads everything, for the first time or again.
func (l *loop) rescan() {
	l.gen++
	l.conn = l.client.Status().Since
	waiting := append(l.work.restart(), l.held...)
	l.again, l.held = nil, nil
	l.work.mark(l.tree.path, wantNode, l.work.now())
	gen, zxid := l.gen, l.client.Status().LastZxid
	l.work.barrier(append([]func(){func() { l.fresh(gen, zxid) }}, waiting...)...)
}

// fresh is called when everything of a generation is read. It has no effect if a later
// generation has begun.
func (l *loop) fresh(gen uint32, zxid client.Zxid) {
	if gen != l.gen || l.down {
		return
	}
	for path, g := range l.denied {
		if g != gen {
			l.allow(path)
		}
	}
	l.known(zxid)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stale = time.Time{}
	if l.isReady {
		l.tellLocked(Event{Type: Fresh})
		return
	}
	l.isReady = true
	close(l.ready)
	l.tellLocked(Event{Type: Ready})
}

// --- Events

// hear handles an event, and all that have arrived since.
func (l *loop) hear(n client.Notice) {
	for range 256 {
		if n.Watch == l.watch {
			l.heard(n.Event.Path, n.Event.Type)
		} else if sh, ok := l.shots.fired(n.Watch); ok {
			l.heardShot(sh)
		}
		select {
		case n = <-l.inbox.Events():
		default:
			return
		}
	}
}

// heard requests the reads that an event makes necessary. Events do not change the cache;
// only reads do.
func (l *loop) heard(path string, t client.EventType) {
	seg := l.work.now()
	switch t {
	case client.EventDataChanged:
		l.mark(path, wantNode, seg)
	case client.EventCreated, client.EventDeleted:
		l.mark(path, wantNode, seg)
		if path != l.tree.path {
			parent, _ := split(path)
			l.mark(parent, wantStat, seg)
		}
	case client.EventChildrenChanged:
		l.mark(path, wantStat, seg)
	}
}

// heardShot requests the read that the event of a one-shot watch makes necessary. The read
// sets the next watch.
func (l *loop) heardShot(sh shot) {
	what := wantNode
	if sh.children {
		what = wantList
	}
	l.mark(sh.path, what, l.work.now())
}

// mark is work.mark for a path that may be outside the cache.
func (l *loop) mark(path string, what want, seg *segment) {
	if l.work.tasks[path] != nil || l.within(path) {
		l.work.mark(path, what, seg)
	}
}

// within reports whether a path belongs in the cache.
func (l *loop) within(path string) bool {
	depth := l.tree.depth(path)
	if depth < 0 || depth > l.levels() {
		return false
	}
	for ; depth > 0; depth-- {
		if !l.takes(path) {
			return false
		}
		path, _ = split(path)
	}
	return true
}

// takes reports whether a path belongs in the cache if its parent does.
func (l *loop) takes(path string) bool {
	return path != l.hidden && (l.opts.Filter == nil || l.opts.Filter(path))
}

// levels returns the number of levels below the root that are cached.
func (l *loop) levels() int {
	switch l.opts.Depth {
	case Whole:
		return 1 << 30
	case NodeOnly:
		return 0
	}
	return l.opts.Depth
}

// missedNone reports whether the connection is still the one on which everything was read. If
// so, the watch has reported every change.
func (l *loop) missedNone() bool {
	conn := l.client.Status().Since
	return !conn.IsZero() && conn.Equal(l.conn)
}

// sync calls then when the cache has everything that the server had when it answered a sync
// just now. If that was on another connection, this is when everything has been read on it or
// on a later one; the change of state is about to arrive.
func (l *loop) sync(then func()) {
	zxid := l.client.Status().LastZxid
	if !l.missedNone() {
		l.held = append(l.held, then)
		return
	}
	l.catchUp()
	l.work.barrier(func() {
		l.known(zxid)
		then()
	})
}

// catchUp handles all events that have arrived.
func (l *loop) catchUp() {
	for l.inbox.Pending() {
		select {
		case n := <-l.inbox.Events():
			l.hear(n)
		default:
			runtime.Gosched() // an event is on its way into the channel
		}
	}
}

// settle records how far the cache is complete: if there is nothing to read and no event
// pending, up to the zxid that the client had seen before the check.
func (l *loop) settle() {
	zxid := l.client.Status().LastZxid
	l.seen = max(l.seen, zxid)
	armed := l.watch != nil && !l.watch.Fired()
	if zxid > l.version && l.work.idle() && armed && !l.inbox.Pending() && l.missedNone() {
		l.known(zxid)
	}
}

// known records that the cache has all changes up to zxid.
func (l *loop) known(zxid client.Zxid) {
	if zxid > l.version { // only the loop changes it
		l.mu.Lock()
		l.version = zxid
		l.mu.Unlock()
	}
}
