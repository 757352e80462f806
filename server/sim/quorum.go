package sim

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// The ghost's implementation of members and quorums, which shares no code with the core.

// memberChange is an entry that changes the members.
type memberChange struct {
	zxid    jute.Zxid
	members *zab.Members
}

func isQuorum(m *zab.Members, in func(zab.SID) bool) bool {
	if m.Hierarchical {
		return isGroupQuorum(m, in)
	}
	voters, have := 0, 0
	for _, one := range m.List {
		if one.Observer {
			continue
		}
		voters++
		if in(one.ID) {
			have++
		}
	}
	return 2*have > voters
}

func isGroupQuorum(m *zab.Members, in func(zab.SID) bool) bool {
	all, have := map[uint32]int{}, map[uint32]int{}
	for _, one := range m.List {
		if one.Observer {
			continue
		}
		all[one.Group] += int(one.Weight)
		if in(one.ID) {
			have[one.Group] += int(one.Weight)
		}
	}
	won := 0
	for g := range all {
		if 2*have[g] > all[g] {
			won++
		}
	}
	return 2*won > len(all)
}

func ids(m *zab.Members) (list []zab.SID) {
	for _, one := range m.List {
		if !one.Observer {
			list = append(list, one.ID)
		}
	}
	return list
}

// node returns the server with the given id.
func (s *Sim) node(id zab.SID) *node {
	if id == 0 || int(id) > len(s.nodes) {
		return nil
	}
	return s.nodes[id-1]
}

// counts reports whether a server has weight: its disk has the incarnation that was
// admitted, by the committed entries, and no loss is about to be found. Before any server is
// admitted, all count. Members may name a server of the site before, which there is not any more (nil).
func (s *Sim) counts(n *node) bool {
	if n == nil || n.old || n.torn || n.badSnaps {
		return false
	}
	if !s.ghost.state.Seeded() {
		return true
	}
	return s.ghost.state.Admits(n.id, n.disk.durable.incarnation)
}

// wouldKnowCounted reports whether a server would know after a crash that it counts: its admission and
// the admission's commit are on its disk. Otherwise it has to wait for a leader that others
// elect.
func (s *Sim) wouldKnowCounted(n *node) bool {
	if n.old {
		return false
	}
	h := &n.disk.durable
	var state zab.State
	if b := h.base(); b != nil {
		state = b.state.Clone()
	}
	me := zab.Admission{Server: n.id, Incarnation: h.incarnation}
	for i := h.search(state.Zxid); i < len(h.ents); i++ {
		e := &h.ents[i]
		switch {
		case e.Zxid <= h.hint:
			if err := state.Apply(&e.Entry); err != nil {
				s.fail("I3", "server %d: %v", n.id, err)
			}
		case state.Seeded():
			return state.Admits(me.Server, me.Incarnation)
		case e.Type == zab.EntryMarker: // the first marker, perhaps committed
			var m zab.Marker
			return m.Decode(e.Data) == nil && slices.Contains(m.Admitted, me)
		}
	}
	return state.Admits(me.Server, me.Incarnation)
}

// configsAt returns the members that decide at z, which is committed: the members at that
// point, and for an entry that changes them the previous ones as well.
func (s *Sim) configsAt(z jute.Zxid) []*zab.Members {
	g := &s.ghost
	list := g.configs[:0]
	now := &s.members
	for i := range g.changes {
		c := &g.changes[i]
		if c.zxid > z {
			break
		}
		if c.zxid == z {
			list = append(list, now)
		}
		now = c.members
	}
	g.configs = append(list, now)
	return g.configs
}

// quorumNow reports whether servers are a quorum of the committed members.
func (s *Sim) quorumNow(in func(zab.SID) bool) bool {
	return isQuorum(s.membersNow(), in)
}

// membersNow returns the committed members.
func (s *Sim) membersNow() *zab.Members {
	if k := len(s.ghost.changes); k > 0 {
		return s.ghost.changes[k-1].members
	}
	return &s.members
}
