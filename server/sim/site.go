package sim

import (
	"math"
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/zab"
)

// A change of site: the standbys become an ensemble, and take the place of the other one, which was retired, or whose servers
// never run again. The clients continue there. Standbys at the old site follow it then, and later take its place in turn.

// SiteChange says how the site changes in the middle of a run.
type SiteChange uint8

// The changes.
const (
	SiteStays   SiteChange = iota
	SiteRetires            // the ensemble is retired, and its standbys have everything
	SiteIsLost             // all its servers are lost
)

// changeSites runs a part of the chaos, and changes the site there and back again, sometimes as soon as the other ensemble has begun.
func (s *Sim) changeSites() {
	at := s.cfg.Steps * 4 / 10
	for range 2 {
		for s.steps < at || s.ghost.state.Members == nil && s.steps < s.cfg.Steps*7/10 {
			s.step()
		}
		switch {
		case s.ghost.state.Members == nil: // there is no ensemble yet
		case s.cfg.Site == SiteRetires:
			s.retireSite()
		case s.cfg.Site == SiteIsLost:
			s.loseSite()
		}
		if at = s.steps; s.percent(50) {
			at += s.rng.IntN(s.cfg.Steps * 3 / 10)
		}
	}
}

// retireSite has clients retire the ensemble, and its standbys take its place when they have everything. If that takes too long,
// the operators give it up.
func (s *Sim) retireSite() {
	s.retired = math.MaxUint64
	for end := s.steps + s.cfg.Steps/5; s.steps < end; s.step() {
		r := s.ghost.retired(s.ghost.last)
		if r == nil && s.percent(10) {
			s.clients[s.rng.IntN(len(s.clients))].retires = true
		}
		if r != nil && s.percent(5) && s.mayPromote(r.from) {
			s.promote()
			return
		}
	}
	s.retired = s.now
}

// loseSite loses all servers of the ensemble. The standbys that are behind follow the one that has most.
func (s *Sim) loseSite() {
	best := s.standbys[0]
	for _, b := range s.standbys {
		if b.alive {
			s.crashStandby(b)
		}
		if s.startStandby(b); s.former(b) {
			s.empty(b)
			s.startStandby(b)
		}
		if b.state.Zxid > best.state.Zxid {
			best = b
		}
	}
	if !best.state.Seeded() {
		return // there is no copy yet, so the servers are not lost either
	}
	s.trace(nil, "the site is lost")
	for _, n := range s.nodes {
		s.crash(n, true)
	}
	if last := best.state.Zxid; (copies.Consent{}).Covers(best.tree, last) || (copies.Consent{LossAfter: last - 1}).Covers(best.tree, last) {
		s.fail("K5", "standby %d at %v takes the place of an ensemble, and nobody has given up what followed", best.id, last)
	}
	if s.mayPromote(0) {
		s.promote()
		return
	}
	for _, b := range s.standbys {
		for b.state.Zxid < best.state.Zxid {
			b.from = &logSource{copy: best, life: best.life}
			if s.followLog(b); b.from == nil {
				s.fetch(b, &logSource{copy: best, life: best.life})
				s.installCopy(b)
			}
		}
	}
	if !s.mayPromote(0) {
		s.fail("K5", "equal standbys at %v can't take the place of a lost ensemble", best.state.Zxid)
	}
	s.promote()
}

// mayPromote reports whether all standbys can become an ensemble, which operators have stopped for that. They know at which zxid it was
// retired, 0 if the site is lost: then they give up on each what followed.
func (s *Sim) mayPromote(retiredSince jute.Zxid) bool {
	var members []copies.Member
	for _, b := range s.standbys {
		if !b.alive || !b.state.Seeded() || s.former(b) {
			return false
		}
		members = append(members, copies.Member{Admission: b.admission(), Last: b.state.Zxid})
	}
	for i, b := range s.standbys {
		b.disk.makeDurable(b.disk.count)
		consent := copies.Consent{RetiredSince: retiredSince}
		if retiredSince == 0 {
			consent.LossAfter = b.state.Zxid
		}
		if later := (copies.Consent{RetiredSince: b.tree.RetiredSince() + 1}); later.Covers(b.tree, b.state.Zxid) {
			s.fail("K5", "standby %d is retired since %v, and counts as complete for an ensemble that was retired again at %v", b.id, b.tree.RetiredSince(), later.RetiredSince)
		}
		if !consent.Covers(b.tree, b.state.Zxid) || copies.Check(members[i], members) != nil {
			return false
		}
	}
	return true
}

func (b *standby) admission() zab.Admission {
	return zab.Admission{Server: zab.SID(b.id), Incarnation: b.disk.written.incarnation}
}

// promote makes an ensemble of the standbys, perhaps without one of them: K5, K6.
func (s *Sim) promote() {
	chosen := s.standbys
	if k := len(chosen); k > 1 && s.percent(30) {
		chosen = chosen[:k-1]
	}
	first := chosen[0]
	var members []zab.Admission
	for _, b := range chosen {
		if members = append(members, b.admission()); b.state.Zxid != first.state.Zxid {
			s.fail("K5", "the standbys at %v and %v become an ensemble", first.state.Zxid, b.state.Zxid)
		}
	}
	was, next := first.state, copies.Succeed(&first.state, first.tree, members)
	s.checkSuccessor(&was, &next)
	s.stats.Promotions++
	s.trace(nil, "the standbys become an ensemble at %v", was.Zxid)
	s.endSite()
	s.cutHistory(first)
	if next.Serves != nil {
		e := zab.Entry{Zxid: next.Serves.Zxid, Prev: next.Serves.Zxid - 1, Type: zab.EntryTxn, Data: next.Serves.Append(nil)}
		s.commit(nil, &chainedEntry{Entry: e, chain: mix(s.ghost.lastChain(), hashEntry(&e))})
	}
	if r := s.ghost.retired(s.ghost.last); r != nil && s.cfg.Site == SiteRetires {
		s.fail("K6", "the ensemble that begins at %v is retired since %v", next.State.Zxid, r.from)
	}
	s.ghost.begin(next.State)
	s.ghost.begun = append(s.ghost.begun, next.State)
	s.ghost.tops, s.ghost.admits = [256]uint32{}, [256]zab.ID{}
	s.beginSite(&next, chosen)
}

// begin begins the history of an ensemble that copies have become.
func (g *ghost) begin(state zab.State) { g.state, g.changes = state.Clone(), nil }

// checkSuccessor checks that the ensemble that begins is another one than the one before, and ahead of all that this may still do: K6.
func (s *Sim) checkSuccessor(was *zab.State, next *copies.Successor) {
	if next.State.Init.Cluster == was.Init.Cluster || next.State.Init.Secret != was.Init.Secret ||
		copies.Sends(copies.PointOf(&next.State), copies.PointOf(was)) != copies.OtherHistory {
		s.fail("K6", "the ensemble %x becomes %x", was.Init.Cluster, next.State.Init.Cluster)
	}
	for _, n := range s.nodes {
		if p := n.disk.written.promise.Epoch; p >= next.Epoch {
			s.fail("K6", "server %d has promised epoch %d, and the ensemble that follows begins after %d", n.id, p, next.Epoch)
		}
	}
}

// endSite ends the servers, and what clients have with them.
func (s *Sim) endSite() {
	for _, c := range s.clients {
		s.lostConn(c) // also one that is being made
	}
	for _, n := range s.nodes {
		s.crash(n, true)
	}
	s.agenda.filter(func(e *event) bool {
		switch e.kind {
		case evClient, evToClient, evStream, evStandby, evFault:
			return true
		}
		return false
	})
	s.links, s.blocks, s.dialing, s.held, s.freeAt = [16][16]*link{}, [16][16]int{}, [16][16]bool{}, [16][]event{}, [16][16]uint64{}
	s.plans, s.retired = nil, s.now
}

// cutHistory removes from the ghost what was committed after the end of a copy. Of a retired ensemble that is nothing but
// sessions of operators, and what servers do: K5.
func (s *Sim) cutHistory(b *standby) {
	g := &s.ghost
	i, _ := g.index(b.state.Zxid)
	given := g.commits[i+1:]
	s.stats.GivenUp += len(given)
	if s.cfg.Site == SiteIsLost {
		s.replayHistory(b.state.Zxid)
		return
	}
	for k := range given {
		if given[k].needed {
			s.fail("K5", "the standbys become an ensemble at %v without %v, which session %v has written", b.state.Zxid, given[k].zxid, given[k].session)
		}
	}
	g.commits, g.last = g.commits[:i+1], b.state.Zxid
	g.tree, g.state = s.load(s.takeState(b.tree, &b.state, b.chain)), b.state.Clone()
	for id := range g.sessions {
		if _, is := g.tree.Session(id); !is && g.sessions[id] {
			delete(g.sessions, id)
		}
	}
}

// beginSite starts the servers of the ensemble that begins, with standbys at the site where the earlier one was. A standby that was not
// chosen keeps its copy.
func (s *Sim) beginSite(next *copies.Successor, chosen []*standby) {
	former := s.nodes
	for _, n := range former {
		s.lives = max(s.lives, n.life)
	}
	s.nodes, s.members = nil, zab.Members{}
	for _, b := range chosen {
		s.members.List = append(s.members.List, zab.Member{ID: zab.SID(b.id), Weight: 1})
	}
	for i, b := range chosen {
		if next.Serves != nil {
			b.tree.Apply(next.Serves, &s.result)
		}
		n := &node{id: zab.SID(b.id), idx: int8(i), s: s, life: s.lives, capacity: s.cfg.Capacity, file: s.members}
		if i < len(former) {
			n.skew, n.settings = former[i].skew, former[i].settings
		}
		snap := s.takeState(b.tree, &next.State, s.ghost.lastChain())
		snap.by = b.disk.written.incarnation
		n.disk.durable = history{
			exists: true, incarnation: snap.by, promise: zab.Promise{Epoch: next.Epoch},
			snaps: []*snapshot{snap}, start: snap.zxid, startChain: snap.chain,
		}
		n.disk.written = n.disk.durable.clone()
		n.disk.data.owner = &datadirs.Owner{Server: n.id, Incarnation: snap.by}
		n.disk.data.keep(snap)
		s.nodes = append(s.nodes, n)
		s.ghost.tops[n.id], s.ghost.admits[n.id] = next.Epoch, snap.by
		if s.cfg.WAL {
			s.newReal(n)
		}
		s.agenda.push(event{at: s.now + s.between(0, s.cfg.ElectionMs*300), kind: evRestart, node: n.idx})
	}
	for i, b := range chosen {
		b.alive = false // nobody follows it as a copy any more
		s.standbys[i] = s.newStandby(i + 1)
	}
}

// replayHistory makes the ghost what it was at z. The clients have seen more, and keep their sessions, if there are any.
func (s *Sim) replayHistory(z jute.Zxid) {
	was := s.ghost
	s.ghost = newGhost()
	g := &s.ghost
	g.born, g.established, g.promised, g.acked = was.born, was.established, was.promised, was.acked
	g.begun, g.givenUp = was.begun, append(was.givenUp, [2]jute.Zxid{z, was.last})
	next := was.begun
	for i := range was.entries {
		if was.entries[i].Zxid > z {
			break
		}
		clear(g.kept) // what a transaction promised does not count from now
		s.commit(nil, &was.entries[i])
		if len(next) > 0 && next[0].Zxid == g.last {
			g.begin(next[0])
			next = next[1:]
		}
	}
	g.wanted = was.wanted
	for id, open := range g.sessions {
		if ms, ok := g.tree.Session(id); open && ok {
			g.kept[id] = s.now + s.shortest(ms)
		}
	}
	for _, c := range s.clients {
		c.watches, c.persistent, c.told, c.view = nil, nil, 0, clientView{}
	}
}

// gaveUp reports whether a zxid was given up with the site.
func (g *ghost) gaveUp(z jute.Zxid) bool {
	return slices.ContainsFunc(g.givenUp, func(r [2]jute.Zxid) bool { return r[0] < z && z <= r[1] })
}
