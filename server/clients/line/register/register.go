// Package register keeps the connections of a server's clients, by number, by session and by
// handle in the watch table. Servers and the simulator use it. It is safe for concurrent use.
package register

import (
	"slices"
	"sync"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/fair"
	"github.com/zkd-project/zkd/server/watch"
)

// Conn is a connection. The register calls its methods with its lock held.
type Conn interface {
	comparable
	Origin() uint64                     // its number, unique over servers
	SessionID() jute.SessionID          // 0: none yet
	LastTouch() (LastTouch, bool)       // false: nobody has to hear of it
	WatchHandle() (watch.Watcher, bool) // false: it has none
}

// LastTouch is the last touch by the client of a connection that has ended.
type LastTouch struct {
	Session   jute.SessionID
	TimeoutMs int32
	At        int64 // ms
}

// Useless reports whether it helps no longer to report the touch: it is older than the
// session's timeout.
func (t LastTouch) Useless(now int64) bool { return now-t.At > int64(t.TimeoutMs) }

// Register holds the live connections, with the number of connections of each address. One
// mutex guards it, an inner one of all: a connection's methods above take none.
type Register[C Conn] struct {
	mu        sync.RWMutex
	byOrigin  map[uint64]C
	bySession map[jute.SessionID]C
	byIP      map[string]places
	places    places          // of all
	byWatcher []C             // indexed by watch.Watcher
	free      []watch.Watcher // handles to use again
	reports   bool            // touches are reported to a leader
	ended     []LastTouch     // of connections that ended since the last report
}

// New returns an empty register. reports means that LiveAndEnded will be called from time to
// time.
func New[C Conn](reports bool) *Register[C] {
	return &Register[C]{
		reports:   reports,
		byOrigin:  make(map[uint64]C),
		bySession: make(map[jute.SessionID]C),
		byIP:      make(map[string]places),
	}
}

// Kind is what a connection takes of the process.
type Kind int

// The kinds.
const (
	Direct   Kind = iota // a descriptor
	Carrying             // a descriptor, for the connections that it carries, which count in its place
	Carried              // memory: another connection carries it
	numKinds
)

// places is how many connections there are of each kind.
type places [numKinds]int

func (p places) sum() int { return p[Direct] + p[Carried] }

// taken returns how much there is of what a kind takes.
func (p places) taken(kind Kind) int {
	if kind == Direct {
		return p[Direct] + p[Carrying]
	}
	return p[kind]
}

// Most is how many connections there may be: of an address, in all, and of each kind. 0 means no limit.
type Most struct {
	PerIP, All int
	Of         [numKinds]int
}

// admits reports whether there may be one more of an address that has some of all.
func (m Most) admits(has, all places, kind Kind) bool {
	switch most := m.Of[kind]; {
	case m.PerIP > 0 && (has.sum() >= m.PerIP || kind == Direct && has[Carrying] >= m.PerIP):
		return false
	case m.All > 0 && !fair.Enters(has.sum(), m.All-all.sum()):
		return false
	default:
		return most == 0 || fair.Enters(has.taken(kind), most-all.taken(kind))
	}
}

// Add registers a new connection, unless a limit is reached. No connection ends for it, since
// its session would have to look for another server: instead, an address does not get the last places of all.
func (r *Register[C]) Add(c C, ip string, kind Kind, most Most) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	has := r.byIP[ip]
	if !most.admits(has, r.places, kind) {
		return false
	}
	has[kind]++
	r.places[kind]++
	r.byIP[ip] = has
	r.byOrigin[c.Origin()] = c
	return true
}

// Carries notes that a connection of kind Direct is of kind Carrying from here on.
func (r *Register[C]) Carries(ip string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	has := r.byIP[ip]
	for _, p := range []*places{&has, &r.places} {
		p[Direct]--
		p[Carrying]++
	}
	r.byIP[ip] = has
}

// Remove removes a connection from the register.
func (r *Register[C]) Remove(c C, ip string, kind Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byOrigin, c.Origin())
	has := r.byIP[ip]
	has[kind]--
	r.places[kind]--
	if r.byIP[ip] = has; has == (places{}) {
		delete(r.byIP, ip)
	}
	s := c.SessionID()
	if r.bySession[s] == c {
		delete(r.bySession, s)
	}
	if t, ok := c.LastTouch(); ok && r.reports {
		r.ended = append(r.ended, t)
	}
	if w, ok := c.WatchHandle(); ok {
		var none C
		r.byWatcher[w] = none
		r.free = append(r.free, w)
	}
}

// Get returns the connection with a number, or the zero C.
func (r *Register[C]) Get(origin uint64) C {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byOrigin[origin]
}

// Claim makes c the connection of session s and returns the previous one.
func (r *Register[C]) Claim(s jute.SessionID, c C) (old C) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old = r.bySession[s]
	r.bySession[s] = c
	return old
}

// OfSession returns the connection of session s, if it is on this server.
func (r *Register[C]) OfSession(s jute.SessionID) C {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.bySession[s]
}

// Release forgets session s and returns its connection, if it is on this server.
func (r *Register[C]) Release(s jute.SessionID) C {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.bySession[s]
	delete(r.bySession, s)
	return c
}

// AddWatcher gives c a handle for the watch table.
func (r *Register[C]) AddWatcher(c C) watch.Watcher {
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

// Watcher returns the connection with a handle, or the zero C.
func (r *Register[C]) Watcher(w watch.Watcher) C {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byWatcher[w]
}

// All returns the live connections in no particular order.
func (r *Register[C]) All() []C {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.allLocked()
}

func (r *Register[C]) allLocked() []C {
	list := make([]C, 0, len(r.byOrigin))
	for _, c := range r.byOrigin {
		list = append(list, c)
	}
	return list
}

// LiveAndEnded returns the live connections, and the last touches of those that have ended since
// the last call. Both are read under one hold of the lock, so a connection that ends at
// the same moment is in one of the two.
func (r *Register[C]) LiveAndEnded() (live []C, ended []LastTouch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended, r.ended = r.ended, nil
	return r.allLocked(), ended
}

// DropEnded forgets the last touches that are no longer of use, of connections that have ended.
func (r *Register[C]) DropEnded(useless func(LastTouch) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = slices.DeleteFunc(r.ended, useless)
}

// NumEnded returns how many connections have ended since the last call of LiveAndEnded.
func (r *Register[C]) NumEnded() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.ended)
}

// Len returns the number of live connections.
func (r *Register[C]) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.byOrigin)
}
