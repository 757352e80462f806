package zab

import (
	"flag"
	"fmt"
	"slices"
	"testing"
)

var (
	seeds     = flag.Uint64("seeds", 60, "how many seeds TestRandom runs")
	firstSeed = flag.Uint64("first", 0, "the first of them")
)

// TestRandom drives ensembles through crashes, lost and doubled messages, cut and deaf
// links, and pauses. Then it heals everything, and requires all servers to serve and to
// have applied the same entries. The network checks the invariants on the way.
func TestRandom(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { chaos(t, seed, 2500) })
	}
}

func chaos(t testing.TB, seed uint64, steps int) {
	voters := 3 + 2*int(seed%2)
	n := newNetwork(t, seed, voters, int(seed/2%2))
	r := n.rng
	on := func(most float64) float64 { // a fault is disabled in half of the runs
		return most * r.Float64() * float64(r.IntN(2))
	}
	n.drop, n.dup = on(0.05), on(0.05)
	n.delay = 1 + r.IntN(2)*r.IntN(20)
	n.fsync = 1 + r.IntN(2)*r.IntN(30)
	crash, cut, deaf, freeze, wipe, members := on(0.01), on(0.01), on(0.005), on(0.003), on(0.3), on(0.01)
	power := on(0.01)
	small := r.IntN(3) == 0
	n.tune = func(o *Options) {
		if small {
			o.CacheBytes, o.WindowBytes, o.BatchBytes = 500, 1000, 300
		}
		if seed%5 == 0 {
			o.InitialCounter = 0xFFFEFFF0 // close to a renewal
		}
	}
	for _, s := range n.servers {
		s.start()
	}
	any := func() *server { return n.servers[r.IntN(len(n.servers))] }
	for i := range steps {
		n.step()
		if r.Float64() < crash {
			if s := any(); s.up {
				s.crash()
				if n.expendable(s) && r.Float64() < wipe {
					if r.IntN(2) == 0 {
						s.damage()
					} else {
						s.wipe()
					}
				}
			}
		}
		if r.Float64() < 0.01 {
			if s := any(); !s.up {
				s.start()
			}
		}
		if r.Float64() < power {
			n.powerCut()
		}
		a, b := any().id, any().id
		switch f := r.Float64(); {
		case a == b:
		case f < cut:
			n.cut[pair(a, b)] = !n.cut[pair(a, b)]
		case f < cut+deaf:
			n.deaf[[2]SID{a, b}] = !n.deaf[[2]SID{a, b}]
		}
		if s := any(); s.up {
			if r.Float64() < freeze {
				s.frozen = true
			} else if r.Float64() < 0.02 {
				s.frozen = false
			}
		}
		for range r.IntN(3) {
			any().propose(fmt.Sprint("txn ", i))
		}
		if s := any(); s.up && r.IntN(20) == 0 {
			s.read()
		}
		if s := any(); s.up && r.Float64() < members {
			n.toggleMember(s)
		}
		if s := any(); s.up && r.IntN(500) == 0 {
			s.core.Transfer()
			s.take()
		}
	}
	clear(n.cut)
	clear(n.deaf)
	n.drop, n.dup, n.delay, n.fsync = 0, 0, 1, 1
	n.coldStart()
	for _, s := range n.servers {
		s.frozen = false
		if !s.up {
			s.start()
		}
	}
	n.until(20_000, "everybody serves", n.settledDown)
	if !n.leader().propose("last") {
		n.until(20_000, "the leader proposes", func() bool { l := n.leader(); return l != nil && l.propose("last") })
	}
	n.until(20_000, "all have applied all", func() bool { return n.settledDown() && n.converged() })
	n.run(2500)
	for _, s := range n.servers {
		if w := s.core.Status().NotCounted; w != "" {
			t.Errorf("server %d still does not count: %s", s.id, w)
		}
	}
}

// toggleMember makes a leader turn a server into a voter or an observer.
func (n *network) toggleMember(l *server) {
	m := Members{List: slices.Clone(l.core.members().List), Commanded: n.rng.IntN(2) == 0}
	i := n.rng.IntN(len(m.List))
	m.List[i].Observer = !m.List[i].Observer
	if l.core.status.Role == Leading {
		l.core.ProposeMembers(m)
		l.take()
	}
}

// powerCut stops all servers, and starts all except one.
func (n *network) powerCut() {
	for _, s := range n.servers {
		if s.up {
			s.crash()
		}
	}
	off := n.rng.IntN(len(n.servers))
	for i, s := range n.servers {
		if i != off {
			s.start()
		}
	}
}

// coldStart stops all servers, and starts no more than a leader would have needed: these
// must serve.
func (n *network) coldStart() {
	l := n.leader()
	if l == nil {
		return
	}
	// A change of the members that was just committed may not be known to be committed: then the
	// old members are needed once more.
	var some []SID
	in := func(id SID) bool { return slices.Contains(some, id) }
	enough := func() bool {
		return l.core.quorum(in) && !slices.ContainsFunc(some, func(id SID) bool { return !n.server(id).restarted().quorum(in) })
	}
	for _, i := range n.rng.Perm(len(n.servers)) {
		id := SID(i + 1)
		if p := l.core.peer(id); id != l.id && (p == nil || !l.core.reliesOn(p) || p.incarnation != n.server(id).incarnation) || !l.core.voter(id) {
			continue
		}
		some = append(some, id)
		if enough() {
			break
		}
	}
	if !enough() {
		return
	}
	for _, s := range n.servers {
		if s.up {
			s.crash()
		}
	}
	for _, id := range some {
		n.server(id).start()
	}
	n.until(20_000, fmt.Sprintf("servers %v serve", some), n.settledDown)
}

// expendable reports whether the ensemble can continue if a server loses its data: whether
// the others that the leader has seen admitted are a quorum.
func (n *network) expendable(s *server) bool {
	l := n.leader()
	return l != nil && l.core.quorum(func(id SID) bool {
		return id != s.id && l.core.log.settled.Admits(id, n.server(id).incarnation) && n.server(id).state.Admits(id, n.server(id).incarnation)
	})
}
