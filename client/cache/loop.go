package cache

import (
	"context"
	"errors"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/subtrees"
)

// retryAfter is the pause before a read is repeated that failed at the server; lagPause is
// how long a cache waits for a server that is behind.
const (
	retryAfter = 200 * time.Millisecond
	lagPause   = 50 * time.Millisecond
)

// loop is the goroutine that keeps a cache up to date, by a feed where the server offers it, and
// by watches elsewhere. It owns all fields that are not in Cache.
type loop struct {
	*Cache
	ctx    context.Context
	states <-chan client.StateChange

	seen client.Zxid // zxid that the cache has seen something of
	held []func()    // syncs that wait until everything is read
	gen  uint32      // generation: counts how often everything was read
	// denied has the unreadable nodes that were reported, with the generation in which they
	// were last found unreadable.
	denied map[string]uint32
	hidden string // the path of the servers' own nodes in the client's view
	fatal  error  // ends the loop
	// refused means that the server has no room for the feed. It counts until the next connection, which
	// may be to another server.
	refused bool
}

func newLoop(k *Cache, ctx context.Context) *loop {
	l := &loop{Cache: k, ctx: ctx, states: k.client.Session().States(ctx), denied: map[string]uint32{}}
	if k.client.Root() == "" {
		l.hidden = systemPath
	}
	return l
}

// systemPath is the path of the servers' own nodes. Some of them change without an event.
const systemPath = "/zookeeper"

// run keeps the cache up to date until it is closed or the session has ended.
func (l *loop) run() {
	err := l.client.WaitConnected(l.ctx)
	for err == nil {
		switch {
		case l.followable():
			err = l.follow()
		case l.opts.Observer != nil && !l.opts.Watches:
			err = l.idle()
		default:
			err = l.watch()
		}
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
	if r := l.opts.Room; r != nil {
		r.used.Add(-l.roomed)
		if errors.Is(err, ErrTooLarge) {
			l.tree.Nodes = subtrees.Nodes{Path: l.tree.Path}
		}
	}
	for s := range l.subs {
		s.end()
	}
	l.mu.Unlock()
	close(l.finished)
	l.cancel()
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

// takes reports whether a path belongs in the cache if its parent does.
func (l *loop) takes(path string) bool {
	return path == l.tree.Path || path != l.hidden && (l.opts.Filter == nil || l.opts.Filter(path))
}

// fresh records that everything of the generation was read, and is known up to a zxid.
func (l *loop) fresh(zxid client.Zxid) {
	l.known(zxid)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stale.IsZero() {
		return
	}
	l.stale = time.Time{}
	if l.isReady {
		l.tellLocked(Event{Type: Fresh})
		return
	}
	l.isReady = true
	close(l.ready)
	l.tellLocked(Event{Type: Ready})
}

// known records that the cache has all changes up to zxid.
func (l *loop) known(zxid client.Zxid) {
	if zxid > l.tree.Version { // only the loop changes it
		l.mu.Lock()
		l.tree.Version = zxid
		l.observeLocked(nil)
		l.mu.Unlock()
	}
}

// wanted returns the data if the cache has any.
func (l *loop) wanted(data []byte) []byte {
	if l.opts.NoData {
		return nil
	}
	return data
}

// addLocked adds a new node. It returns nil if the parent is not in the cache: if the parent
// can be read, its children will be read with it.
func (l *loop) addLocked(path string, data []byte, stat client.Stat) *subtrees.Node {
	n := l.tree.Add(path, data, stat)
	if n != nil {
		l.tellAddedLocked(n, path)
	}
	return n
}

func (l *loop) removeLocked(n *subtrees.Node, path string) {
	l.tree.Remove(n, path, l.tellRemovedLocked)
}

// pruneLocked removes the children of n that are not to be kept.
func (l *loop) pruneLocked(n *subtrees.Node, path string, keep func(kid *subtrees.Node) bool) {
	l.tree.Prune(n, path, keep, l.tellRemovedLocked)
}

// checkSizeLocked ends the loop if the cache is too large.
func (l *loop) checkSizeLocked() {
	if l.opts.MaxBytes > 0 && l.tree.Bytes > l.opts.MaxBytes {
		l.fatal = ErrTooLarge
	}
	if r := l.opts.Room; r != nil {
		more := l.tree.Bytes - l.roomed
		l.roomed = l.tree.Bytes
		if used := r.used.Add(more); more > 0 && used > r.most {
			l.fatal = ErrTooLarge
		}
	}
}

// allowLocked records that a node can be read, or does not exist.
func (l *loop) allowLocked(path string) {
	delete(l.denied, path)
	delete(l.unreadable, path)
}

// forbidLocked records that the client may not read a node.
func (l *loop) forbidLocked(path string, err error) {
	if _, told := l.denied[path]; !told {
		l.unreadable[path] = err
		l.tellLocked(Event{Type: Unreadable, Node: Node{Path: path}, Err: err})
	}
	l.denied[path] = l.gen
}
