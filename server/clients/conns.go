package clients

import (
	"sync"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/watch"
)

// conns is the register of live connections, by origin, by session and by handle in the
// watch table, with the number of connections of each address. One mutex guards it. It is
// the innermost lock except a connection's, which is never held when this one is taken.
type conns struct {
	mu        sync.RWMutex
	byOrigin  map[uint64]*conn
	bySession map[jute.SessionID]*conn
	byIP      map[string]int
	byWatcher []*conn         // indexed by watch.Watcher
	free      []watch.Watcher // handles to use again
	reports   bool            // touches are reported to a leader
	ended     []lastTouch     // of connections that ended since the last report
}

// lastTouch is the last touch by the client of a connection that has ended.
type lastTouch struct {
	session   jute.SessionID
	timeoutMs int32
	at        int64 // ms
}

func newConns(reports bool) *conns {
	return &conns{
		reports:   reports,
		byOrigin:  make(map[uint64]*conn),
		bySession: make(map[jute.SessionID]*conn),
		byIP:      make(map[string]int),
	}
}

// add registers a new connection unless a limit is reached (0 means no limit).
func (r *conns) add(c *conn, ip string, perIP, total int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if perIP > 0 && r.byIP[ip] >= perIP || total > 0 && len(r.byOrigin) >= total {
		return false
	}
	r.byIP[ip]++
	r.byOrigin[c.id] = c
	return true
}

// remove removes a connection from the register.
func (r *conns) remove(c *conn, ip string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byOrigin, c.id)
	if r.byIP[ip]--; r.byIP[ip] == 0 {
		delete(r.byIP, ip)
	}
	s := c.sessionID()
	if r.bySession[s] == c {
		delete(r.bySession, s)
	}
	if r.reports && s != 0 && !c.local.Load() {
		r.ended = append(r.ended, lastTouch{session: s, timeoutMs: c.timeoutMs, at: c.touched.Load()})
	}
	if w := c.watcher.Load(); w != 0 {
		r.byWatcher[w-1] = nil
		r.free = append(r.free, watch.Watcher(w-1))
	}
}

func (r *conns) get(origin uint64) *conn {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byOrigin[origin]
}

// claim makes c the connection of session s and returns the previous one.
func (r *conns) claim(s jute.SessionID, c *conn) (old *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old = r.bySession[s]
	r.bySession[s] = c
	return old
}

// ofSession returns the connection of session s, if it is on this server.
func (r *conns) ofSession(s jute.SessionID) *conn {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.bySession[s]
}

// release forgets session s and returns its connection, if it is on this server.
func (r *conns) release(s jute.SessionID) *conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.bySession[s]
	delete(r.bySession, s)
	return c
}

// addWatcher gives c a handle for the watch table.
func (r *conns) addWatcher(c *conn) watch.Watcher {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.free); n > 0 {
		w := r.free[n-1]
		r.free = r.free[:n-1]
		r.byWatcher[w] = c
		return w
	}
	r.byWatcher = append(r.byWatcher, c)
	return watch.Watcher(len(r.byWatcher) - 1)
}

func (r *conns) watcher(w watch.Watcher) *conn {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byWatcher[w]
}

// all returns the live connections in no particular order.
func (r *conns) all() []*conn {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.allLocked()
}

func (r *conns) allLocked() []*conn {
	list := make([]*conn, 0, len(r.byOrigin))
	for _, c := range r.byOrigin {
		list = append(list, c)
	}
	return list
}

// liveAndEnded returns the live connections, and the last touches of those that have ended since
// the last call. Both are read under one hold of the lock, so a connection that ends at
// the same moment is in one of the two.
func (r *conns) liveAndEnded() (live []*conn, ended []lastTouch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended, r.ended = r.ended, nil
	return r.allLocked(), ended
}

// numEnded returns how many connections have ended since the last call of heard.
func (r *conns) numEnded() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.ended)
}

func (r *conns) len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.byOrigin)
}
