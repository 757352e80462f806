package cache

import (
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// An Observer learns what becomes of a cache that a feed keeps up to date. The cache calls it while it is locked, so it must neither block nor
// call the cache.
type Observer interface {
	// Changed is called when the cache has everything up to a zxid. changes are those since the last call, also of the lists of children
	// (jute.ChangeChildren). Those of a very large transaction may come before its zxid.
	Changed(changes []client.Change, zxid client.Zxid)
	// Reset is called when everything is to be read again, and when the cache ends. Changed tells nothing of what happens until the next Changed.
	Reset()
}

// Room is memory that several caches share.
type Room struct {
	most int64
	used atomic.Int64
}

// NewRoom returns a Room for so many bytes, as Cache.Bytes counts them. A cache that would take more closes with ErrTooLarge.
func NewRoom(most int64) *Room { return &Room{most: most} }

// Used returns how many bytes the caches take.
func (r *Room) Used() int64 { return r.used.Load() }

// Most returns how many they may take.
func (r *Room) Most() int64 { return r.most }

// Seen is what a cache knows of a path.
type Seen struct {
	Exists bool
	Node   Node
	Whole  bool // the cache has all children, and not only those that the client may read

	// The node has been like this since the transaction Since at the latest, and up to Version.
	Since, Version client.Zxid

	names func(to []string) []string
}

// Names appends the names of the children.
func (s *Seen) Names(to []string) []string { return s.names(to) }

// See calls take with what a cache that has an Observer knows of a path. Until take returns, the cache does not change. See returns false, and does not
// call take, if the cache is stale, or can't know of the path: it is outside, or the client may not read it, or perhaps so.
func (k *Cache) See(path string, take func(*Seen)) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if !k.fed || !k.stale.IsZero() {
		return false
	}
	return k.seeLocked(path, take)
}

// SeeLast is See for a cache that need not be up to date: what it calls take with was so at Version. It returns false before everything was
// read once, and when the cache has ended.
func (k *Cache) SeeLast(path string, take func(*Seen)) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.isReady && k.err == nil && k.seeLocked(path, take)
}

func (k *Cache) seeLocked(path string, take func(*Seen)) bool {
	n, ok := k.tree.Look(path)
	if ok {
		s := Seen{Exists: n.Exists, Whole: n.Whole, Since: n.Since, Version: n.Zxid, names: n.Names}
		if s.Exists {
			s.Node = Node{Path: path, Data: n.Data, Stat: n.Stat}
		}
		take(&s)
	}
	return ok
}

// observeLocked tells the observer of changes, if a feed keeps the cache.
func (k *Cache) observeLocked(changes []client.Change) {
	if o := k.opts.Observer; o != nil && k.fed {
		o.Changed(changes, k.tree.Version)
	}
}

// unfed is called when a feed no longer keeps the cache.
func (k *Cache) unfed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fed && k.opts.Observer != nil {
		k.opts.Observer.Reset()
	}
	k.fed = false
}

// kinds are the changes that the cache has to know.
func (k *Cache) kinds() []client.ChangeKind {
	if k.opts.Observer == nil {
		return nil
	}
	return []client.ChangeKind{client.ChangeCreated, client.ChangeDeleted, client.ChangeData, client.ChangeACL, jute.ChangeChildren}
}

// retryFeed is after how long a server may have room for a feed.
const retryFeed = 10 * time.Second

// idle waits until there may be a feed.
func (l *loop) idle() error {
	timer := time.NewTimer(retryFeed)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.ctx.Done():
		return ErrClosed
	case s, ok := <-l.states:
		switch {
		case !ok:
			return ErrClosed
		case s.To == client.StateExpired, s.To == client.StateAuthFailed, s.To == client.StateClosed:
			if err := l.over(); err != nil {
				return err
			}
		}
	}
	l.refused, l.opts.noFeed = false, false
	return l.client.WaitConnected(l.ctx)
}
