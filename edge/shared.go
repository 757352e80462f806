package edge

import (
	"sync"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/cache"
	"github.com/zkd-project/zkd/edge/memory"
)

// cacheTimeout is the timeout of the sessions by which the subtrees are followed: a connection that has died silently is noticed after two thirds of it.
const cacheTimeout = 6 * time.Second

// keepsMemory is how long the memory of an identity stays that no client has.
const keepsMemory = time.Minute

// memories has the subtrees of Options.Cached and Options.Stale for each identity. Clients of one identity share a memory, which has what the servers let this
// identity read.
type memories struct {
	e    *Edge
	room *cache.Room

	mu   sync.Mutex
	open map[string]*shared
}

// shared is the memory of an identity.
type shared struct {
	m     *memory.Memory
	users int
	since time.Time // when the last one has gone
}

func newMemories(e *Edge) *memories {
	return &memories{e: e, room: cache.NewRoom(e.o.CachedBytes), open: map[string]*shared{}}
}

// memoryKey tells identities apart. The edge's own is none of a user.
func memoryKey(user *string) string {
	key := "own"
	if user != nil {
		key = "user " + *user
	}
	if memoryLent.Planted() {
		key = ""
	}
	return key
}

// keepOwn keeps the memory of the edge's own identity, for clients that come when no server is reached. With identities there is no such client.
func (s *memories) keepOwn() {
	s.mu.Lock()
	has := s.open[memoryKey(nil)] != nil
	s.mu.Unlock()
	if !has && len(s.e.o.Stale) > 0 && s.e.o.Identities == nil {
		s.leave(s.take(nil))
	}
}

// take returns the memory of an identity, for one client more, or nil.
func (s *memories) take(user *string) *shared {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := memoryKey(user)
	if s.e.stop.Err() != nil {
		return nil
	}
	if s.open[key] == nil {
		o := memory.Options{Servers: s.e.o.Upstream, Client: s.e.o.Client, Paths: s.e.o.Cached, Room: s.room, Told: &s.e.figures.cachedEvents, Log: s.e.o.Log}
		o.Stale, o.For, o.Clock, o.Seen = s.e.o.Stale, s.e.o.StaleFor, s.e.o.Clock, func() client.Zxid { return client.Zxid(s.e.seen.Load()) }
		o.Client.Timeout, o.Client.User = cacheTimeout, user
		o.Client.Logger = client.NoLog // the clients' sessions tell of servers
		m, err := memory.Open(o)
		if err != nil {
			s.e.o.Log.Error("nothing is cached", "err", err)
			return nil
		}
		s.open[key] = &shared{m: m}
	}
	s.open[key].users++
	return s.open[key]
}

// leave is called when a client has gone that has taken a memory.
func (s *memories) leave(m *shared) {
	if s == nil || m == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.users--; m.users == 0 {
		m.since = time.Now()
	}
}

// tidy closes the memories that nobody has had for a while, until the edge ends; then all.
func (s *memories) tidy() {
	tick := time.NewTicker(keepsMemory / 2)
	defer tick.Stop()
	for ends := false; !ends; {
		select {
		case <-tick.C:
		case <-s.e.stop.Done():
			ends = true
		}
		for _, m := range s.idle(ends) {
			m.Close()
		}
		s.keepOwn()
	}
}

// idle takes those memories out that nobody has had for a while, or all.
func (s *memories) idle(all bool) (list []*memory.Memory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, m := range s.open {
		if all || m.users == 0 && time.Since(m.since) > keepsMemory && !s.kept(key, m) {
			delete(s.open, key)
			list = append(list, m.m)
		}
	}
	return list
}

// kept reports whether a memory stays that nobody has had for a while, as there are stale subtrees: it is the edge's own, or was used not longer ago than
// they are shown, or is what is known while no server is reached.
func (s *memories) kept(key string, m *shared) bool {
	if len(s.e.o.Stale) == 0 || m.m.GivenUp() {
		return false
	}
	return key == memoryKey(nil) || time.Since(m.since) <= s.e.o.StaleFor || m.m.Away() && !m.m.Known().Current.IsZero()
}

// away reports whether no server is reached, and what the memories can show then.
func (s *memories) away() (away bool, k memory.Known) {
	if s == nil {
		return false, k
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.open {
		one := m.m.Known()
		if one.Current.After(k.Current) {
			k = one
		}
		away = away || m.m.Away() && !one.Current.IsZero()
	}
	return away, k
}

// stats returns the figures of all memories.
func (s *memories) stats() (all memory.Stats) {
	if s == nil {
		return all
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.open {
		one := m.m.Stats()
		all.Subtrees += one.Subtrees
		all.Nodes += one.Nodes
		all.Troubles = append(all.Troubles, one.Troubles...)
	}
	return all
}
