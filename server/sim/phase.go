package sim

import (
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/server/zab"
)

// phase is a part of a run.
type phase uint8

const (
	phaseChaos phase = iota
	phaseLive        // a quorum works, and must make progress
	phaseWhole       // everything works
)

// runLive heals a quorum, keeps all others broken and breaks them further, and requires
// progress.
func (s *Sim) runLive() {
	core := s.chooseCore(s.mountAll())
	if core == nil {
		return // no quorum could make progress: see mayLoseDisk
	}
	s.phase = phaseLive
	s.core = s.core[:0]
	for _, n := range core {
		s.core = append(s.core, n.idx)
	}
	s.breakOthers(core)
	s.trace(nil, "phase: servers %v must make progress", ids(&zab.Members{List: members(core)}))
	s.heal(core)
	answered := make([]uint64, len(s.clients))
	for i, c := range s.clients {
		answered[i] = c.writes
	}
	s.runUntil("the quorum %v makes no progress", func() bool {
		for i, c := range s.clients {
			if c.writes < answered[i]+2 {
				return false
			}
		}
		return s.settled(core)
	}, ids(&zab.Members{List: members(core)}))
	s.runFor(2 * s.cfg.ElectionMs) // a hand-over under way may end
	s.runUntil("the quorum %v is without a leader", func() bool { return s.settled(core) }, ids(&zab.Members{List: members(core)}))
	leader := s.settledLeader(core)
	epoch := leader.status.Epoch
	s.runFor(5 * s.cfg.ElectionMs)
	if leader.status.Role != zab.Leading || leader.core.Status().Role != zab.Leading {
		s.fail("Liveness", "server %d led epoch %d in a healthy quorum, and was deposed", leader.id, epoch)
	}
}

// breakOthers breaks all servers outside of the core permanently: each may crash, and a
// link to another server works in one direction at most.
func (s *Sim) breakOthers(core []*node) {
	for _, n := range s.nodes {
		if slices.Contains(core, n) {
			continue
		}
		if s.percent(40) {
			s.crash(n, s.percent(50)) // it may start again
		}
		for _, o := range s.nodes {
			// With both directions it could rightly lead those of the quorum that reach it.
			which := s.rng.IntN(3)
			if o != n && which != 0 {
				s.blocks[n.idx][o.idx] += forGood
			}
			if o != n && which != 1 {
				s.blocks[o.idx][n.idx] += forGood
			}
		}
	}
}

// runFor lets time pass.
func (s *Sim) runFor(ms uint64) {
	for end := s.now + ms*1000; s.now < end; {
		s.step()
	}
}

// forGood is larger than the number of all blocks that end by themselves.
const forGood = 1 << 20

func members(list []*node) (m []zab.Member) {
	for _, n := range list {
		m = append(m, zab.Member{ID: n.id})
	}
	return m
}

// chooseCore draws a quorum of servers that count and know it, or returns all if there has
// never been a leader. A server whose volumes have just come back is not in it: a leader may be
// about to admit the incarnation that it had without them.
func (s *Sim) chooseCore(back []*node) []*node {
	var list []*node
	nodes := s.listed()
	for _, i := range s.rng.Perm(len(nodes)) {
		n := nodes[i]
		if s.ghost.last > 0 && (!s.canCount(n.id) || slices.Contains(back, n)) {
			continue
		}
		list = append(list, n)
		if s.ghost.last > 0 && s.quorumOf(list) {
			return list
		}
	}
	if s.ghost.last == 0 {
		return list
	}
	return nil
}

// canCount reports whether a server counts and knows it, or would after a restart.
func (s *Sim) canCount(id zab.SID) bool {
	n := s.node(id)
	return s.counts(n) && (n.selfCounted() || s.wouldKnowCounted(n)) && s.staysAdmitted(n)
}

// staysAdmitted reports whether no entry that is not committed yet admits another incarnation
// of a server.
func (s *Sim) staysAdmitted(n *node) bool {
	for _, o := range s.nodes {
		h, state := &o.disk.written, s.ghost.state.Clone()
		if chain, ok := h.chainAt(state.Zxid); !ok || chain != s.ghost.lastChain() {
			continue
		}
		for i := h.search(state.Zxid); i < len(h.ents); i++ {
			if err := state.Apply(&h.ents[i].Entry); err != nil {
				s.fail("I3", "server %d: %v", o.id, err)
			}
		}
		if state.Seeded() && !state.Admits(n.id, n.disk.durable.incarnation) {
			return false
		}
	}
	return true
}

// selfCounted reports whether the node counts as a voter, by its own knowledge. A node without
// data does so until it hears of nodes that have data.
func (n *node) selfCounted() bool {
	if last, _ := n.disk.written.last(); !n.alive || last == 0 {
		return false
	}
	st := n.core.Status()
	return !st.Observer && st.NotCounted == ""
}

// quorumOf reports whether the nodes of a list can decide alone, also with messages in
// transit to them: members that a leader has just proposed.
func (s *Sim) quorumOf(list []*node) bool {
	logs := slices.Clone(list)
	for _, n := range s.nodes {
		if n.alive && n.status.Role == zab.Leading && !slices.Contains(list, n) {
			logs = append(logs, n)
		}
	}
	in := func(v zab.SID) bool { return slices.Contains(list, s.node(v)) }
	return s.decides(logs, in) && !slices.ContainsFunc(s.nodes, func(n *node) bool { return s.movable(&n.file) && !isQuorum(&n.file, in) })
}

// settledLeader returns the node that leads all of list, or nil. Nodes that are no longer
// members do not matter.
func (s *Sim) settledLeader(list []*node) *node {
	now := s.membersNow()
	list = slices.DeleteFunc(slices.Clone(list), func(n *node) bool { return now.Find(n.id) == nil })
	var leader *node
	for _, n := range list {
		if n.alive && n.status.Role == zab.Leading {
			leader = n
		}
	}
	if leader == nil {
		return nil
	}
	for _, n := range list {
		if n != leader && (n.status.Role != zab.Following || n.status.Leader != leader.id || n.status.Epoch != leader.status.Epoch) {
			return nil
		}
	}
	return leader
}

func (s *Sim) settled(list []*node) bool { return s.settledLeader(list) != nil }

// runUntil runs until done returns true, which must happen within a while.
func (s *Sim) runUntil(text string, done func() bool, args ...any) {
	end := s.now + (60*s.cfg.ElectionMs+3*s.cfg.InitMs+2*s.cfg.RenewMs)*1000 + 500*(s.cfg.FsyncUs+s.cfg.NetUs) + 40*s.cfg.SnapMs*1000
	if s.cfg.Rate > 0 {
		end += 40 * uint64(s.cfg.SnapBytes+int64(s.cfg.BigBytes)) * 1000 / s.cfg.Rate
	}
	for k := 0; ; k++ {
		if k&15 == 0 && done() {
			return
		}
		if s.now > end {
			s.fail("Liveness", text+": "+s.describeNodes(), args...)
		}
		s.step()
	}
}

// describeNodes tells what each server is doing.
func (s *Sim) describeNodes() string {
	text := ""
	for _, n := range s.nodes {
		text += "\n\t" + n.describe()
	}
	return text + fmt.Sprintf("\n\tmembers %+v, changes %d, settled %v, all count %v", s.membersNow().List, len(s.ghost.changes), s.settled(s.listed()), s.allCount())
}

// converge heals everything and stops the clients: all servers must reach the same state. A
// change of the members under way may need a server that has just lost its data, which its
// leader could not know: then no quorum can decide.
func (s *Sim) converge() {
	if s.ghost.last > 0 && !s.decides(s.nodes, s.canCount) {
		s.stats.Stuck++
		return
	}
	s.phase = phaseWhole
	s.trace(nil, "phase: all heal")
	s.heal(s.nodes)
	s.runUntil("not all servers follow", func() bool { return s.settled(s.listed()) && s.allCount() && !s.isDemoted() })
	for _, c := range s.clients {
		c.stopped = true
	}
	s.runUntil("not all servers apply everything", func() bool {
		for _, n := range s.listed() {
			if n.applied != s.ghost.last {
				return false
			}
		}
		return s.settled(s.listed())
	})
	for _, n := range s.listed() {
		s.checkApplied(n)
	}
	s.runUntil("a server still holds requests", func() bool {
		for _, n := range s.listed() {
			if !s.nothingHeld(n) {
				return false
			}
		}
		return true
	})
	s.runUntil("a request is not answered", func() bool {
		for _, n := range s.listed() {
			if slices.ContainsFunc(n.conns, func(c *conn) bool { return c.line.Waiting.Len() > 0 }) {
				return false
			}
		}
		return true
	})
	s.runUntil("streams are left of sessions that edges have given up", s.carriersTidy)
	s.runUntil("not all standbys have everything", s.allCopied)
	s.checkFeedsSent()
	if skipped := s.ghost.tree.Stats().Skipped; skipped > 0 {
		s.fail("S1", "%d operations could not be applied", skipped)
	}
}

// allCount reports whether all voters have been admitted again.
func (s *Sim) allCount() bool {
	for _, one := range s.membersNow().List {
		if n := s.node(one.ID); !one.Observer && n != nil && !s.counts(n) {
			return false
		}
	}
	return true
}
