package sim

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// changeMembers makes the leader propose other members: one server becomes a voter or an
// observer, or is left out.
func (s *Sim) changeMembers() {
	n := s.leader()
	if n == nil || n.paused || !n.leading() {
		return
	}
	if s.percent(60) {
		s.wantChange()
		return
	}
	m := *s.membersNow()
	m.List = slices.Clone(m.List)
	s.changeOneMember(&m)
	m.Commanded, m.Text = s.percent(30), nil
	if len(ids(&m)) < 2 || !isQuorum(&m, func(v zab.SID) bool { return s.counts(s.node(v)) && s.wouldKnowCounted(s.node(v)) }) {
		return
	}
	z, err := n.core.ProposeMembers(m)
	if err == nil {
		s.ordered[z] = true
	}
	s.trace(n, "proposes members %v as %v: %v", ids(&m), z, err)
	s.takeOutputs(n)
}

// inForce returns the lists that would decide for a node after a crash: the list that it
// would know to be committed, or else the first one, and all later ones in its log. A node
// without a list decides by its file, as long as no node has a list.
func (s *Sim) inForce(n *node) (list []*zab.Members) {
	h := &n.disk.written
	from, known := jute.Zxid(0), n.disk.durable.hint
	if b := n.disk.durable.base(); b != nil {
		from, known = b.zxid, max(b.zxid, known)
		if b.state.Members != nil {
			list = append(list, b.state.Members)
		}
	}
	for i := h.search(from); i < len(h.ents); i++ {
		e := &h.ents[i]
		m := s.listOf(e)
		if m == nil || e.Type == zab.EntryMarker && len(list) > 0 {
			continue
		}
		if e.Zxid <= known {
			list = list[:0]
		}
		list = append(list, m)
	}
	if len(list) == 0 && s.ghost.state.Members == nil {
		list = append(list, &n.file)
	}
	return list
}

// newestList returns the newest list of members in a node's log, committed or not.
func (s *Sim) newestList(n *node) *zab.Members {
	lists := s.inForce(n)
	return lists[len(lists)-1]
}

// listOf returns the list of members in an entry, or nil.
func (s *Sim) listOf(e *chainedEntry) *zab.Members {
	var err error
	m := new(zab.Members)
	switch e.Type {
	case zab.EntryMembers:
		err = m.Decode(e.Data)
	case zab.EntryMarker:
		var marker zab.Marker
		err = marker.Decode(e.Data)
		m = marker.Members
	default:
		return nil
	}
	if err != nil {
		s.fail("I4", "members of %v: %v", e.Zxid, err)
	}
	return m
}

// decides reports whether the servers for which in is true can decide, whichever of their
// lists are in force.
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

// listed returns the nodes that are members in the committed list.
func (s *Sim) listed() (list []*node) {
	m := s.membersNow()
	for _, n := range s.nodes {
		if m.Find(n.id) != nil {
			list = append(list, n)
		}
	}
	return list
}

// checkMembers checks that an entry that changes the members is the only such entry in the
// log that is not committed: I18.
func (s *Sim) checkMembers(n *node, e *zab.Entry) {
	h, z := &n.disk.written, e.Zxid
	if _, born := s.ghost.born[z]; !born {
		s.checkMove(n, e)
		s.checkChange(n, e)
	}
	for i := len(h.ents) - 1; i >= 0 && h.ents[i].Zxid > max(s.ghost.last, n.core.Committed()); i-- {
		if h.ents[i].Type == zab.EntryMembers && s.ghost.established[z.Epoch()] == n.id {
			s.fail("I18", "server %d changes the members by %v, and %v is not committed", n.id, z, h.ents[i].Zxid)
		}
	}
}
