package sim

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// Configuration files: each server has a file with a list of members, and reads it when it
// starts. Operators change the files server by server, in any order, and not always to the
// same list.

// fileSpan is the list of a process that has ended, and the time of its end, µs.
type fileSpan struct {
	list  zab.Members
	until uint64
}

// giveDifferingFile gives one server a list in which it and another server decide. Alone it is no
// quorum of that list. The others are a quorum of theirs, so that they can begin.
func (s *Sim) giveDifferingFile() {
	odd, other := s.nodes[s.rng.IntN(s.cfg.Voters)], s.nodes[s.rng.IntN(s.cfg.Voters)]
	if odd == other || !isQuorum(&s.members, func(id zab.SID) bool { return id != odd.id }) {
		return
	}
	m := zab.Members{List: slices.Clone(s.members.List)}
	for i := range m.List {
		m.List[i].Observer = m.List[i].ID != odd.id && m.List[i].ID != other.id
	}
	odd.file = m
}

// changeFile restarts a server with another list in its configuration file: one of at most
// two lists that operators are distributing.
func (s *Sim) changeFile(n *node) {
	if s.ghost.state.Members == nil {
		return // it is not settled yet which list counts
	}
	if len(s.plans) == 0 || s.percent(25) {
		s.plans = append(s.plans, s.planList())
		s.plans = s.plans[max(0, len(s.plans)-2):]
	}
	plan := s.plans[s.rng.IntN(len(s.plans))]
	if plan.Find(n.id) == nil {
		return // a file must list its own server
	}
	before := n.file
	n.file = plan
	if s.couldFound(nil) {
		n.file = before
		return
	}
	s.trace(n, "fault: the file has the members %v", &plan)
	s.crash(n, s.percent(30))
	s.restartLater(n)
}

// planList draws a list that differs from the one that decides by a few servers.
func (s *Sim) planList() zab.Members {
	now := s.membersNow()
	m := zab.Members{List: withoutMarks(now.List)}
	for range 1 + s.rng.IntN(3) {
		s.changeOneMember(&m)
	}
	if s.percent(15) {
		m.Hierarchical = true
		for i := range m.List {
			m.List[i].Group, m.List[i].Weight = uint32(s.rng.IntN(3)), uint32(1+s.rng.IntN(2))
		}
	}
	if len(ids(&m)) < 2 {
		return zab.Members{List: withoutMarks(now.List), Hierarchical: now.Hierarchical}
	}
	return m
}

// changeOneMember makes a server a voter, an observer, or no member.
func (s *Sim) changeOneMember(m *zab.Members) {
	id := zab.SID(s.rng.IntN(len(s.nodes)) + 1)
	one := m.Find(id)
	switch {
	case one == nil:
		m.List = append(m.List, zab.Member{ID: id, Observer: s.percent(50), Weight: 1})
		slices.SortFunc(m.List, func(a, b zab.Member) int { return int(a.ID) - int(b.ID) })
	case s.percent(30):
		m.List = slices.DeleteFunc(m.List, func(o zab.Member) bool { return o.ID == id })
	default:
		one.Observer, one.Demoted = !one.Observer, false
	}
}

// couldFound reports whether servers without data, including wiped if it lost its data,
// could found another ensemble: they are a quorum of a list that all of them have. Nothing
// in an ensemble can prevent that.
func (s *Sim) couldFound(wiped *node) bool {
	for _, n := range s.nodes {
		empty := func(v zab.SID) bool {
			o := s.node(v)
			if o == nil || !sameList(&o.file, &n.file) && !sameList(&o.list, &n.file) {
				return false
			}
			return o == wiped || o.disk.durable.empty()
		}
		if isQuorum(&n.file, empty) {
			return true
		}
	}
	return false
}

// empty reports whether a log has no data, and does not say that it had some.
func (h *history) empty() bool {
	last, _ := h.last()
	return last == 0 && !h.damaged
}

// sameList compares the lists except versions and texts.
func sameList(a, b *zab.Members) bool {
	if a.Hierarchical != b.Hierarchical || len(a.List) != len(b.List) {
		return false
	}
	for i, x := range a.List {
		y := b.List[i]
		if x.ID != y.ID || x.Observer != y.Observer || a.Hierarchical && (x.Weight != y.Weight || x.Group != y.Group) {
			return false
		}
	}
	return true
}

// accepts reports whether a node links to another one: that one is in its file or in its
// history, or the later list of its ensemble has it.
func (s *Sim) accepts(n, o *node) bool {
	settled, newest := n.core.Lists()
	if n.list.Find(o.id) != nil || settled.Find(o.id) != nil || newest.Find(o.id) != nil ||
		n.told.Version > newest.Version && n.told.Find(o.id) != nil {
		return true
	}
	mine, theirs := n.core.Introduction(), o.core.Introduction()
	if s.cfg.AdmitLearners && mine.List != 0 && theirs.List <= mine.List && (theirs.Cluster == zab.ID{} || theirs.Cluster == mine.Cluster) {
		return true
	}
	return theirs.List > mine.List && slices.Contains(s.clusters(n), theirs.Cluster)
}

// tellRefused tells a node about another one to which it can't have a link.
func (s *Sim) tellRefused(n, by *node) {
	if n.paused || by.paused || s.blocked(n.idx, by.idx) || s.blocked(by.idx, n.idx) {
		return
	}
	n.core.Heard(by.id, by.core.Introduction())
	s.takeOutputs(n)
}

// clusters returns the clusters that a node may belong to: the ensemble of its history, or
// those of the servers in its file to which it has a link.
func (s *Sim) clusters(n *node) (list []zab.ID) {
	if own := n.core.Introduction().Cluster; own != (zab.ID{}) {
		return []zab.ID{own}
	}
	for _, one := range n.list.List {
		if l := s.linkTo(n, one.ID); l != nil && one.ID != n.id && l.intro[1-l.side(n)].Cluster != (zab.ID{}) {
			list = append(list, l.intro[1-l.side(n)].Cluster)
		}
	}
	return list
}

// listsChanged makes a node tell its members, link to those that are new in its history, and later drop
// the servers that no list contains any more.
func (s *Sim) listsChanged(n *node) {
	for _, o := range s.nodes {
		s.tellMembers(n, o, 0)
	}
	s.linkListed(n)
}

// frameMembers is the kind of a frame that carries a list of members, as in package server.
const frameMembers = 128

// tellMembers tells the members to a node whose newest list has the version theirs.
func (s *Sim) tellMembers(n, o *node, theirs jute.Zxid) {
	l := s.linkTo(n, o.id)
	list := n.core.News(theirs)
	if l == nil || list == nil {
		return
	}
	p := s.newPacket()
	p.from, p.to, p.link, p.bulk, p.frame, p.raw = n.idx, o.idx, l, true, frameMembers, list.Append(nil)
	s.put(n, l, l.side(n), p, false)
}

// hearMembers receives what tellMembers sends.
func (s *Sim) hearMembers(n *node, raw []byte) {
	var list zab.Members
	if err := list.Decode(raw); err != nil {
		s.fail("Codec", "a list of members does not decode: %v", err)
		return
	}
	settled, newest := n.core.Lists()
	linked := func(id zab.SID) bool {
		return id == n.id || n.list.Find(id) != nil || settled.Find(id) != nil || newest.Find(id) != nil || n.told.Find(id) != nil
	}
	if list.Leads(max(newest.Version, n.told.Version), linked) {
		n.told = list
		s.linkListed(n)
	}
}

// linkListed makes a node link to the servers in its lists, and later drop the others.
func (s *Sim) linkListed(n *node) {
	life := n.life
	for _, o := range s.nodes {
		if o != n && o.alive {
			s.dial(n, o, s.between(0, s.cfg.DialMs*1000))
		}
	}
	s.afterUndo(s.cfg.ElectionMs*1000, func() {
		for _, o := range s.nodes {
			l := s.links[n.idx][o.idx]
			if o != n && l != nil && !l.dead && n.alive && n.life == life && o.alive && !s.accepts(n, o) {
				s.breakLink(l, [2]uint64{})
			}
		}
	})
}

// checkMove checks that a leader that proposes the list in its file does so for a quorum of
// both lists: I21. A server that has just gone may still be counted.
func (s *Sim) checkMove(n *node, e *zab.Entry) {
	var m zab.Members
	if err := m.Decode(e.Data); err != nil || m.Commanded || s.ordered[e.Zxid] {
		return
	}
	lists := s.inForce(n)
	old := lists[len(lists)-1]
	wants := func(v zab.SID) bool {
		o := s.node(v)
		return o != nil && (o.alive && sameList(&o.list, &m) || sameList(&o.hadFile.list, &m) && s.now < o.hadFile.until+s.cfg.ElectionMs*20_000)
	}
	if !wants(n.id) || !isQuorum(&m, wants) || !isQuorum(old, wants) {
		s.fail("I21", "server %d changes the members from %v to %v by %v, which the files of a majority do not have", n.id, old, &m, e.Zxid)
	}
}

// movable reports whether a leader may change the members to a list, because the files of a
// quorum have it. A list that is not committed yet may become the one that the files replace.
func (s *Sim) movable(m *zab.Members) bool {
	has := func(v zab.SID) bool { o := s.node(v); return o != nil && sameList(&o.file, m) }
	replaces := func(now *zab.Members) bool {
		return !now.Commanded && !sameList(m, now) && isQuorum(m, has) && isQuorum(now, has)
	}
	return replaces(s.membersNow()) || slices.ContainsFunc(s.nodes, func(n *node) bool { return slices.ContainsFunc(s.inForce(n), replaces) })
}

// sighting is the state of another server's log that a node was shown.
type sighting struct {
	server      zab.SID
	incarnation zab.ID
	position    uint64
	at          uint64 // µs
}

// noteShown records what a node has to remember about another one.
func (s *Sim) noteShown(n, peer *node, in *zab.Introduction) {
	if peer.old || peer.oldBoot == in.Boot || n.core.Status().Role == zab.Halted {
		return
	}
	n.shown = append(n.shown, sighting{peer.id, in.Incarnation, in.Starts[len(in.Starts)-1].Position, s.now})
}

// checkRemembered checks that what a node was shown is on its disk when an fsync that began
// later has finished: I23. The node may have been told more since, and it may forget an
// incarnation that does not count.
func (s *Sim) checkRemembered(n *node) {
	began := n.disk.syncSince
	n.shown = slices.DeleteFunc(n.shown, func(g sighting) bool {
		if g.at+1000 >= began {
			return false
		}
		if peer := s.node(g.server); peer.disk.durable.incarnation == g.incarnation && s.counts(peer) &&
			!slices.ContainsFunc(n.disk.durable.notes.Sightings, func(r zab.Sighting) bool {
				return r.Server == g.server && r.Incarnation == g.incarnation && r.Position >= g.position
			}) {
			s.fail("I23", "server %d has forgotten that the log of server %d was at record %d", n.id, g.server, g.position)
		}
		return true
	})
}

// epochNews is a leader's news of a higher epoch, with its time.
type epochNews struct {
	epoch, at uint64
	pongs     [16]uint64 // by server: when the newest answer to a heartbeat was sent
}

// noteEpochNews records the news that a message is about to bring to a leader.
func (s *Sim) noteEpochNews(n *node, from zab.SID, m *zab.Message, sent uint64) {
	known := max(uint64(n.leads), uint64(n.disk.written.promise.Epoch), n.news.epoch)
	switch m.Kind {
	case zab.MsgFollow:
		n.askedAt[from-1] = s.now
	case zab.MsgPong:
		n.heardAt[from-1] = s.now
		if m.Epoch == n.leads {
			n.news.pongs[from-1] = max(n.news.pongs[from-1], sent)
		}
	case zab.MsgPing, zab.MsgAppend, zab.MsgCommit, zab.MsgLead:
		s.heardOf(n, uint64(m.Epoch), known)
	case zab.MsgNackEpoch:
		s.heardOf(n, uint64(m.Promise), known)
	}
}

// heardOf records that a leader hears of an epoch. A lazy one may have heard of it already
// as a leader, or have promised it, without having shown it yet.
func (s *Sim) heardOf(n *node, epoch, known uint64) {
	if epoch <= known {
		return
	}
	n.news.epoch = epoch
	if n.leads != 0 && !n.lazy {
		n.news.at = s.now
	}
}

// checkConfirmed checks that a leader that has heard of a higher epoch commits nothing
// before a quorum has answered it again: I20.
func (s *Sim) checkConfirmed(n *node, z jute.Zxid) {
	if n.news.at == 0 || n.news.epoch <= uint64(max(n.leads, n.led)) {
		return
	}
	for _, m := range s.configsAt(z) {
		if !isQuorum(m, func(v zab.SID) bool { return v == n.id || s.node(v) != nil && n.news.pongs[v-1] > n.news.at }) {
			s.fail("I20", "server %d commits %v in epoch %d, and has heard of epoch %d since a quorum last answered it", n.id, z, n.leads, n.news.epoch)
		}
	}
	n.news.at = 0
}
