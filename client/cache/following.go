package cache

import (
	"errors"
	"slices"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/tree"
	"github.com/zkd-project/zkd/internal/pause"
	"github.com/zkd-project/zkd/internal/subtrees"
	"github.com/zkd-project/zkd/jute"
)

// following keeps a cache up to date by a feed. It begins with the subtree at one zxid, and applies
// the changes after it in their order. So the cache is what the server had at one zxid.
type following struct {
	*loop
	feed *client.Follower
	base client.Zxid     // of the subtree that was read: it has all changes up to it
	part []client.Change // of a transaction of which more is to come
	// waiting are the functions that wait until the cache has everything up to their zxids.
	waiting []waiting
	partial bool // there may be nodes that the cache lacks: read everything again
}

type waiting struct {
	zxid client.Zxid
	then func()
}

// maxLost is how many times in a row the state of a subtree may be lost while it is read: it is too
// large for this connection, or changes too much. The cache then uses watches.
const maxLost = 3

// followable reports whether a feed can keep the cache up to date. A feed has everything below a node; so
// watches cost less if the cache has a part of that.
func (l *loop) followable() bool {
	const needed = jute.FeatureFeed | jute.FeaturePaging
	whole := l.opts.Depth == Whole && l.opts.Filter == nil || l.opts.Observer != nil
	return whole && !l.opts.OneShot && !l.opts.noFeed && !l.refused && l.client.Status().Features&needed == needed
}

// maxPart is the largest number of changes of a transaction that wait for the others.
const maxPart = 10_000

// follow keeps the cache up to date. It returns nil if that is to begin again.
func (l *loop) follow() error {
	f := &following{
		loop: l, feed: l.client.Follow(l.tree.Path, client.FeedOptions{After: client.FromNow, Data: !l.opts.NoData, Kinds: l.kinds()}),
	}
	defer f.feed.Close()
	defer l.unfed()
	err := f.begin()
	if err == nil {
		err = f.keep()
	}
	for _, w := range f.waiting {
		l.held = append(l.held, w.then)
	}
	if _, missed := errors.AsType[*client.CompactedError](err); missed {
		l.setStale(err)
		return nil
	}
	switch {
	case errors.Is(err, client.ErrQuotaExceeded):
		l.refused = true
		l.setStale(err)
		return nil
	case errors.Is(err, client.ErrThrottled), errors.Is(err, client.ErrOperationTimeout): // by a limit of rates
		l.setStale(err)
		if pause.For(l.ctx, retryAfter) != nil {
			return ErrClosed
		}
		return nil
	case errors.Is(err, client.ErrUnimplemented):
		l.setStale(err)
		return l.client.WaitConnected(l.ctx)
	}
	if over := l.over(); over != nil {
		return over
	}
	return err
}

// begin waits until the feed has begun, and reads the subtree: the feed has all changes after that.
func (l *following) begin() error {
	for {
		if zxid, _ := l.feed.Zxid(); zxid != client.FromNow {
			return l.read()
		}
		select {
		case <-l.feed.Ready():
		case <-l.ctx.Done():
			return ErrClosed
		}
		if _, err := l.feed.Next(); err != nil { // the subtree will have these changes
			return err
		}
	}
}

// keep is the main loop.
func (l *following) keep() error {
	for {
		changes, err := l.feed.Next()
		if err != nil {
			return err
		}
		if l.apply(changes); l.partial {
			l.setStale(errReadable)
			if err := l.read(); err != nil {
				return err
			}
		}
		l.settle()
		if l.fatal != nil {
			return l.fatal
		}
		ready := l.feed.Ready()
		if len(changes) > 0 { // there may be more
			ready = closed
		}
		select {
		case <-l.ctx.Done():
			return ErrClosed
		case <-ready:
		case s, ok := <-l.states:
			if err := l.state(s, ok); err != nil {
				return err
			}
		case done := <-l.syncs:
			l.await(func() { done <- struct{}{} })
		}
	}
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// state handles a change of the session's state, or the end of these. The feed continues by itself.
func (l *following) state(s client.StateChange, ok bool) error {
	if !ok {
		return ErrClosed
	}
	switch s.To {
	case client.StateSuspended:
		l.setStale(s.Err)
	case client.StateExpired:
		l.setStale(s.Err)
		return l.over()
	case client.StateAuthFailed, client.StateClosed:
		return l.over()
	}
	return nil
}

// await calls then when the cache has everything that the client has seen.
func (l *following) await(then func()) {
	l.waiting = append(l.waiting, waiting{l.client.Status().LastZxid, then})
}

// settle records how far the cache is complete, and calls the functions that wait for that.
func (l *following) settle() {
	zxid, level := l.feed.Zxid()
	zxid = max(zxid, l.base)
	l.seen = max(l.seen, zxid)
	if l.known(zxid); level {
		l.fresh(zxid)
	}
	var left []waiting
	for _, w := range l.waiting {
		if w.zxid > zxid {
			left = append(left, w)
			continue
		}
		w.then()
	}
	l.waiting = left
}

// --- The subtree at one zxid

// read makes the cache what the subtree is at one zxid. All that the cache lacks then is what the feed
// has after that.
func (l *following) read() error {
	l.unfed()
	for lost := 0; ; {
		wait := retryAfter
		switch err := l.readOnce(); {
		case err == nil:
			for len(l.states) > 0 { // the loss of an earlier connection
				s, ok := <-l.states
				if err := l.state(s, ok); err != nil {
					return err
				}
			}
			l.partial = false
			l.mu.Lock()
			l.fed, l.tree.Lists, l.tree.Version = true, l.base, max(l.tree.Version, l.base)
			l.observeLocked(nil)
			l.mu.Unlock()
			l.fresh(l.base)
			for _, then := range l.held {
				l.await(then)
			}
			l.held = nil
			return nil
		case l.ctx.Err() != nil:
			return ErrClosed
		case passing(err):
			if err := l.client.WaitConnected(l.ctx); err != nil {
				return err
			}
			wait = 0
		case err == errBehind:
			wait = lagPause
		case errors.Is(err, client.ErrThrottled):
		case errors.Is(err, client.ErrOperationTimeout):
			if lost++; lost == maxLost {
				l.opts.noFeed = true
				return client.ErrUnimplemented
			}
		default:
			return err
		}
		if pause.For(l.ctx, wait) != nil {
			return ErrClosed
		}
	}
}

// errReadable means that a node has become readable.
var errReadable = errors.New("a node can be read now, so the nodes below it are read")

// errBehind means that a server is behind what the cache has.
var errBehind = errors.New("the server is behind")

func (l *following) readOnce() error {
	l.gen++
	zxid := l.client.Status().LastZxid // of the state at least
	floor, _ := l.feed.Zxid()
	floor = max(floor, l.seen)
	o := tree.FrozenOptions{Data: !l.opts.NoData, Begun: func(z client.Zxid) { zxid = z }}
	for e, err := range tree.Frozen(l.ctx, l.client, l.tree.Path, o) {
		if zxid < floor {
			return errBehind
		}
		l.seen = max(l.seen, zxid)
		if err := l.took(&e, err); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if root := l.tree.Root; root != nil {
		l.sweepLocked(root, l.tree.Path)
	}
	l.base = zxid
	return nil
}

// took handles a node of the subtree, or the error in place of one.
func (l *following) took(e *tree.Entry, err error) error {
	if errors.Is(err, client.ErrMarshalling) && e.Path != "" { // its data is too long for a page
		n, again := l.client.Get(l.ctx, e.Path)
		e.Data, e.Stat, err = n.Data, n.Stat, again
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.putLocked(e.Path, e.Data, e.Stat)
	case errors.Is(err, client.ErrNoNode): // of the root, or deleted since
	case errors.Is(err, client.ErrNoAuth):
		path := e.Path
		if path == "" {
			path = l.tree.Path
		}
		l.forbidLocked(path, err)
	default:
		return err
	}
	return l.fatal
}

// putLocked sets a node, if it belongs in the cache.
func (l *following) putLocked(path string, data []byte, stat client.Stat) {
	if !l.takes(path) {
		return
	}
	l.allowLocked(path)
	n := l.tree.Find(path)
	if n != nil && n.Stat.Czxid != stat.Czxid {
		l.removeLocked(n, path)
		n = nil
	}
	if n != nil {
		l.setLocked(n, path, l.wanted(data), stat)
	} else if n = l.addLocked(path, l.wanted(data), stat); n == nil {
		return
	}
	n.Gen = l.gen
	l.checkSizeLocked()
}

// sweepLocked removes what was not read in this generation.
func (l *following) sweepLocked(n *subtrees.Node, path string) {
	if n.Gen != l.gen { // the root
		l.removeLocked(n, path)
		return
	}
	l.pruneLocked(n, path, func(kid *subtrees.Node) bool { return kid.Gen == l.gen })
	for _, kid := range n.Kids {
		l.sweepLocked(kid, jute.Join(path, kid.Name))
	}
}

// --- Changes

// apply applies changes in their order, transactions as a whole.
func (l *following) apply(changes []client.Change) {
	changes = append(l.part, changes...)
	zxid, _ := l.feed.Zxid()
	whole := len(changes)
	for whole > 0 && changes[whole-1].Zxid > zxid && len(changes) <= maxPart {
		whole--
	}
	l.part = slices.Clone(changes[whole:])
	if whole == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	changes = changes[:whole]
	for len(changes) > 0 && changes[0].Zxid <= l.base {
		changes = changes[1:]
	}
	for i := range changes {
		c := &changes[i]
		partial := l.tree.Apply(&jute.Change{Zxid: c.Zxid, Kind: c.Kind, Path: c.Path, Stat: c.Stat, Data: c.Data,
			ParentCversion: c.ParentCversion, ParentChildren: c.ParentChildren}, keeper{l})
		l.partial = l.partial || partial && l.takes(c.Path)
	}
	l.checkSizeLocked()
	l.tree.Version = max(l.tree.Version, zxid)
	l.observeLocked(changes)
}

// keeper carries changes out. It implements subtrees.Keeper.
type keeper struct{ l *following }

func (k keeper) Put(path string, data []byte, stat client.Stat) { k.l.putLocked(path, data, stat) }

func (k keeper) Set(n *subtrees.Node, path string, data []byte, stat client.Stat) {
	k.l.setLocked(n, path, data, stat)
}

func (k keeper) Remove(n *subtrees.Node, path string, hidden bool) {
	if hidden {
		k.l.forbidLocked(path, client.ErrNoAuth)
	} else {
		k.l.allowLocked(path)
	}
	if n != nil {
		k.l.removeLocked(n, path)
	}
}
