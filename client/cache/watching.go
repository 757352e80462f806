package cache

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/jute"
)

// watching keeps a cache up to date by watches.
type watching struct {
	*loop

	inbox *client.Inbox  // of all watches
	set   *client.Client // the view that sets them, through inbox
	wide  *client.Watch  // the persistent watch; nil with one-shot watches
	shots shots          // the one-shot watches

	armed bool // the session has the watches
	down  bool // the connection was lost, and the next one not handled yet
	// conn is when the connection was made on which everything was last read, or is being
	// read. On another connection events may have been missed, even if its change of state
	// has not arrived yet.
	conn  time.Time
	work  work
	again []*task // reads to be repeated, after a pause
	pause *time.Timer
}

// watch keeps the cache up to date. It returns nil if the cache should follow a feed from now on.
func (k *loop) watch() error {
	l := &watching{
		loop: k, work: newWork(), inbox: client.NewInbox(), pause: time.NewTimer(0),
		shots: shots{use: k.opts.OneShot, set: map[shot]*client.Watch{}},
	}
	l.set = k.client.WithInbox(l.inbox)
	defer l.pause.Stop()
	defer l.disarm()
	if err := l.arm(); err != nil {
		return err
	}
	l.rescan()
	err := l.keep()
	if err == errOther {
		l.held = append(l.work.restart(), l.held...)
		return nil
	}
	return err
}

// errOther ends a way of keeping the cache up to date in favour of the other one.
var errOther = errors.New("the other way is to be taken")

// keep is the main loop.
func (l *watching) keep() error {
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
func (l *watching) state(s client.StateChange) error {
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
		l.refused = false
		if l.followable() {
			return errOther
		}
		l.down = false
		l.rescan()
	case client.StateAuthFailed, client.StateClosed:
		return l.over()
	}
	return nil
}

// arm sets the session's watch, and then begins to read everything. A new session may be on a
// server that is behind the cache: arm waits until the server has caught up.
func (l *watching) arm() error {
	for {
		if err := l.client.WaitConnected(l.ctx); err != nil {
			return err
		}
		err := l.client.Sync(l.ctx, l.tree.Path)
		if err == nil && l.client.Status().LastZxid < l.seen {
			if pause.For(l.ctx, lagPause) != nil {
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

func (l *watching) addWatch() error {
	l.shots.reset()
	if l.shots.use {
		return nil
	}
	mode := client.WatchRecursive
	if l.opts.Depth == NodeOnly {
		mode = client.WatchPersistent
	}
	w, err := l.set.AddWatch(l.ctx, l.tree.Path, mode)
	if errors.Is(err, client.ErrUnimplemented) {
		l.shots.use = true
		return nil
	}
	if err == nil {
		l.wide = w
	}
	return err
}

// disarm makes the server remove the watches.
func (l *watching) disarm() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if l.wide != nil {
		_ = l.wide.Close(ctx) // the server may send further events, which the client ignores
	}
	l.shots.close(ctx)
	l.inbox.Close()
}

// rescan reads everything, for the first time or again.
func (l *watching) rescan() {
	l.gen++
	l.conn = l.client.Status().Since
	waiting := append(l.work.restart(), l.held...)
	l.again, l.held = nil, nil
	l.work.mark(l.tree.Path, wantNode, l.work.now())
	gen, zxid := l.gen, l.client.Status().LastZxid
	l.work.barrier(append([]func(){func() {
		if gen == l.gen && !l.down { // and no later generation has begun
			l.fresh(zxid)
		}
	}}, waiting...)...)
}

// --- Events

// hear handles an event, and all that have arrived since.
func (l *watching) hear(n client.Notice) {
	for range 256 {
		if n.Watch == l.wide {
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
func (l *watching) heard(path string, t client.EventType) {
	seg := l.work.now()
	switch t {
	case client.EventDataChanged:
		l.mark(path, wantNode, seg)
	case client.EventCreated, client.EventDeleted:
		l.mark(path, wantNode, seg)
		if path != l.tree.Path {
			parent := jute.Parent(path)
			l.mark(parent, wantStat, seg)
		}
	case client.EventChildrenChanged:
		l.mark(path, wantStat, seg)
	}
}

// heardShot requests the read that the event of a one-shot watch makes necessary. The read
// sets the next watch.
func (l *watching) heardShot(sh shot) {
	what := wantNode
	if sh.children {
		what = wantList
	}
	l.mark(sh.path, what, l.work.now())
}

// mark is work.mark for a path that may be outside the cache.
func (l *watching) mark(path string, what want, seg *segment) {
	if l.work.tasks[path] != nil || l.within(path) {
		l.work.mark(path, what, seg)
	}
}

// within reports whether a path belongs in the cache.
func (l *watching) within(path string) bool {
	depth := l.tree.Depth(path)
	if depth < 0 || depth > l.levels() {
		return false
	}
	for ; depth > 0; depth-- {
		if !l.takes(path) {
			return false
		}
		path = jute.Parent(path)
	}
	return true
}

// levels returns the number of levels below the root that are cached.
func (l *watching) levels() int {
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
func (l *watching) missedNone() bool {
	conn := l.client.Status().Since
	return !conn.IsZero() && conn.Equal(l.conn)
}

// sync calls then when the cache has everything that the server had when it answered a sync
// just now. If that was on another connection, this is when everything has been read on it or
// on a later one; the change of state is about to arrive.
func (l *watching) sync(then func()) {
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
func (l *watching) catchUp() {
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
func (l *watching) settle() {
	zxid := l.client.Status().LastZxid
	l.seen = max(l.seen, zxid)
	armed := l.wide != nil && !l.wide.Fired()
	if zxid > l.tree.Version && l.work.idle() && armed && !l.inbox.Pending() && l.missedNone() {
		l.known(zxid)
	}
}
