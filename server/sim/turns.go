package sim

import (
	"maps"
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/zab"
)

// turns is what the ghost knows of the requests that wait at a leader.
type turns struct {
	epoch       uint32             // in which it is known
	subjects    map[uint64]jute.ID // of each connection, while requests of it wait: the first one's, as in the replica
	connections lead[uint64]
	addresses   lead[jute.ID]
	largest     int  // request
	mixed       bool // requests of several subjects waited when something was proposed last
}

// lead is by how much what is evaluated of the second of a pair exceeds that of the first, since the first
// one waits, counted from when it was least: in bytes, of a subject by its weight.
type lead[K comparable] map[[2]K]int

// grows adds what was evaluated of those that wait, and returns the pair that exceeds most, if there is one. lags reports whether
// the first of a pair waits for the second, and most returns the most that is right.
func (l lead[K]) grows(served map[K]int, lags func(waits, other K) bool, most func(waits, other K) int) (over [2]K, exceeds bool) {
	maps.DeleteFunc(l, func(pair [2]K, _ int) bool { return !lags(pair[0], pair[1]) })
	for pair := range l {
		if _, waits := served[pair[1]]; !waits {
			l[pair] = max(0, l[pair]-served[pair[0]])
		}
	}
	for waits := range served {
		for other := range served {
			pair := [2]K{waits, other}
			if waits == other || !lags(waits, other) {
				continue
			}
			l[pair] = max(0, l[pair]+served[other]-served[waits])
			if l[pair] > most(waits, other) {
				over, exceeds = pair, true
			}
		}
	}
	return over, exceeds
}

// propose makes a leader propose waiting requests, and checks that the connections have their
// turns, and the addresses: F1 and F2.
func (s *Sim) propose(n *node) bool {
	t := &n.turns
	if n.status.Role != zab.Leading || s.cfg.BigBytes > 0 {
		*t = turns{}
		return n.rep.Propose()
	}
	if t.subjects == nil {
		t.subjects = make(map[uint64]jute.ID)
	}
	if t.epoch != n.status.Epoch { // what waits keeps its places
		*t = turns{epoch: n.status.Epoch, subjects: t.subjects, connections: make(lead[uint64]), addresses: make(lead[jute.ID])}
	}
	before := n.waiting()
	var waits []jute.ID
	for origin := range before {
		waits = append(waits, t.subjects[origin])
	}
	t.mixed = slices.ContainsFunc(waits, func(id jute.ID) bool { return id != waits[0] })
	did := n.rep.Propose()
	if len(before) < 2 {
		clear(t.connections)
		clear(t.addresses)
	}
	after := n.waiting()
	s.checkTurns(n, before, after)
	for origin := range t.subjects {
		if _, waits := after[origin]; !waits {
			delete(t.subjects, origin)
		}
	}
	return did
}

// checkTurns compares what waits before and after a leader has proposed.
func (s *Sim) checkTurns(n *node, before, after map[uint64]waiting) {
	t := &n.turns
	served, bySubject, waits := make(map[uint64]int), make(map[jute.ID]int), make(map[jute.ID]bool)
	for origin, was := range before {
		served[origin] = was.bytes - after[origin].bytes
		bySubject[t.subjects[origin]] += s.weigh(t.subjects[origin], served[origin])
		waits[t.subjects[origin]] = waits[t.subjects[origin]] || after[origin].hasTurns()
	}
	// A list that had its turn may have saved the size of one request, and one that waits may lack as much.
	most := func(_, _ uint64) int { return s.cfg.Turn + 2*t.largest }
	if p, over := t.connections.grows(served, func(a, b uint64) bool { return after[a].hasTurns() && t.subjects[a] == t.subjects[b] }, most); over {
		s.fail("F1", "server %d evaluates %d bytes of requests of connection %#x ahead of those of %#x", n.id, t.connections[p], p[1], p[0])
	}
	if p, over := t.addresses.grows(bySubject, func(a, _ jute.ID) bool { return waits[a] }, s.mostAhead(t)); over {
		s.fail("F2", "server %d evaluates %d bytes of requests of %v ahead of those of %v, by their weights", n.id, t.addresses[p]/fraction, p[1], p[0])
	}
}

// fraction is what weigh counts in: the weights are such that it loses nothing.
const fraction = 100

// weigh returns how much bytes of a subject's requests count, in fractions of bytes: as many as of a subject with the weight
// limits.Even they would be.
func (s *Sim) weigh(subject jute.ID, bytes int) int {
	_, weight := s.weights.Of([]jute.ID{subject})
	return bytes * fraction * limits.Even / weight
}

// mostAhead is as for connections, where a subject has turns in proportion to its weight.
func (s *Sim) mostAhead(t *turns) func(a, b jute.ID) int {
	return func(a, b jute.ID) int { return fraction*s.cfg.Turn + s.weigh(a, t.largest) + s.weigh(b, t.largest) }
}

// waiting is what waits of a connection.
type waiting struct {
	bytes int
	first jute.OpCode
}

// hasTurns reports whether the first request waits for nothing but its turn. One that ends the session also waits for others of its
// kind.
func (w waiting) hasTurns() bool { return w.bytes > 0 && w.first != jute.OpCloseSession }

// waiting returns what waits of each connection.
func (n *node) waiting() map[uint64]waiting {
	all := make(map[uint64]waiting)
	for sub := range n.rep.Waiting() {
		origin, size := sub.Request.Origin, int(sub.Size())
		w, known := all[origin]
		if !known {
			w.first = sub.Request.Op
		}
		if _, known := n.turns.subjects[origin]; !known {
			n.turns.subjects[origin] = append(sub.Request.Auth, jute.ID{})[0]
		}
		w.bytes += size
		all[origin] = w
		n.turns.largest = max(n.turns.largest, size)
	}
	return all
}
