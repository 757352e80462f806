package sim

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// changeMembers has the leader propose other members: one server becomes a
// voter, an observer, or is left out.
func (s *Sim) changeMembers() {
	n := s.leader()
	if n == nil || n.paused || n.evaluator == nil {
		return
	}
	m := *s.membersNow()
	m.List = slices.Clone(m.List)
	id := zab.SID(s.rng.IntN(len(s.nodes)) + 1)
	one := m.Find(id)
	switch {
	case one == nil:
		m.List = append(m.List, zab.Member{ID: id, Observer: s.percent(50), Weight: 1})
		slices.SortFunc(m.List, func(a, b zab.Member) int { return int(a.ID) - int(b.ID) })
	case s.percent(30):
		m.List = slices.DeleteFunc(m.List, func(o zab.Member) bool { return o.ID == id })
	default:
		one.Observer = !one.Observer
	}
	if len(ids(&m)) < 2 || !isQuorum(&m, func(v zab.SID) bool { return s.counts(s.node(v)) && s.knows(s.node(v)) }) {
		return
	}
	z, err := n.core.ProposeMembers(m)
	s.trace(n, "proposes members %v as %v: %v", ids(&m), z, err)
	s.heed(n)
}

// inForce are the members that would decide for a node after a crash: those
// that it would know to be committed, and all behind them in its log.
func (s *Sim) inForce(n *node) []*zab.Members {
	h := &n.disk.written
	now, from, known := &s.members, jute.Zxid(0), n.disk.durable.hint
	if b := n.disk.durable.base(); b != nil {
		from, known = b.zxid, max(b.zxid, known)
		if b.state.Members != nil {
			now = b.state.Members
		}
	}
	list := []*zab.Members{now}
	for i := h.search(from); i < len(h.ents); i++ {
		e := &h.ents[i]
		if e.Type != zab.EntryMembers {
			continue
		}
		m := new(zab.Members)
		if err := m.Decode(e.Data); err != nil {
			s.fail("I4", "members of %v: %v", e.Zxid, err)
		}
		if e.Zxid <= known {
			list = list[:0]
		}
		list = append(list, m)
	}
	return list
}

// decides reports whether the servers for which in is true can decide, whatever
// those of a list know of the members.
func (s *Sim) decides(list []*node, in func(zab.SID) bool) bool {
	for _, n := range list {
		for _, m := range s.inForce(n) {
			if !isQuorum(m, in) {
				return false
			}
		}
	}
	return s.quorumNow(in)
}

// listed returns the nodes that are members by what is committed.
func (s *Sim) listed() (list []*node) {
	m := s.membersNow()
	for _, n := range s.nodes {
		if m.Find(n.id) != nil {
			list = append(list, n)
		}
	}
	return list
}

// checkMembers checks that an entry that changes the members is the only one in
// the log that is not committed: I18.
func (s *Sim) checkMembers(n *node, z jute.Zxid) {
	h := &n.disk.written
	for i := len(h.ents) - 1; i >= 0 && h.ents[i].Zxid > s.ghost.last; i-- {
		if h.ents[i].Type == zab.EntryMembers && s.ghost.established[z.Epoch()] == n.id {
			s.fail("I18", "server %d changes the members by %v, and %v is not committed", n.id, z, h.ents[i].Zxid)
		}
	}
}
