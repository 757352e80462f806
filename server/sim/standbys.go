package sim

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/copies"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// Standbys: servers at another site copy the ensemble, by the rules of package copies. Each follows the log of one server after
// the other, or of another standby. No partition keeps them from a server, however stale that is.

// standby is the copy of such a server. Its log has only entries, and the states that it got whole.
type standby struct {
	id    int
	disk  disk
	alive bool
	life  uint32

	tree    *datatree.Tree
	state   zab.State
	chain   uint64
	from    *logSource // that it follows, or nil
	fetched *snapshot  // a whole state that it is about to install, or nil
}

// newStandby returns a standby without a copy.
func (s *Sim) newStandby(id int) *standby {
	b := &standby{id: id}
	b.disk.durable.exists, b.disk.durable.incarnation = true, s.newID()
	b.disk.written = b.disk.durable.clone()
	return b
}

// logSource is what a standby follows: a process of a server or of another standby.
type logSource struct {
	node *node
	copy *standby
	life uint32
}

func (o *logSource) runs() bool {
	if o.node != nil {
		return o.node.alive && o.node.life == o.life
	}
	return o.copy.alive && o.copy.life == o.life
}

// alone reports whether it is a server that neither leads nor follows, which before long sends its log to nobody: others may have more.
func (o *logSource) alone() bool {
	return o.node != nil && o.node.status.Role != zab.Leading && o.node.status.Role != zab.Following
}

// point is up to where it has applied its history.
func (o *logSource) point() copies.Point {
	if o.node == nil {
		return copies.PointOf(&o.copy.state)
	}
	p := copies.Point{History: o.node.state.Init.Cluster, Zxid: o.node.applied}
	if !o.node.state.Seeded() {
		p.History = o.node.disk.written.incarnation
	}
	return p
}

func (o *logSource) log() *history {
	if o.node == nil {
		return &o.copy.disk.written
	}
	return &o.node.disk.written
}

// standbyTurn runs a standby's turn.
func (s *Sim) standbyTurn(i int32) {
	s.agenda.push(event{at: s.now + s.between(1, s.cfg.ElectionMs*20), kind: evStandby, node: -1, arg: i})
	b := s.standbys[i]
	chaos := s.phase == phaseChaos
	switch {
	case !b.alive && (!chaos || s.percent(5)):
		s.startStandby(b)
	case !b.alive:
	case chaos && s.percent(1):
		s.crashStandby(b)
	default:
		s.syncStandby(b)
		s.copy(b)
	}
}

// startStandby recovers a copy: all entries of its log count.
func (s *Sim) startStandby(b *standby) {
	b.alive, b.life = true, b.life+1
	h := &b.disk.written
	b.tree, b.state, b.chain = datatree.New(), zab.State{}, 0
	if base := h.base(); base != nil {
		b.tree, b.state, b.chain = s.load(base), base.state.Clone(), base.chain
	}
	for i := h.search(b.state.Zxid); i < len(h.ents); i++ {
		s.applyEntry(&h.ents[i].Entry, b.tree, &b.state, &s.txn, &s.result, func([]datatree.Event) {})
		b.chain = h.ents[i].chain
	}
	s.stats.StandbyStarts++
	s.trace(nil, "standby %d starts at %v", b.id, b.state.Zxid)
	s.checkCopy(b)
}

// crashStandby ends the process. What was not durable is lost in part: its log is written by another goroutine.
func (s *Sim) crashStandby(b *standby) {
	had, _ := b.disk.durable.last()
	b.disk.makeDurable(b.disk.durableCount() + uint64(b.disk.survivors(s.rng)))
	b.disk.cut()
	b.alive, b.from, b.fetched, b.disk.syncing = false, nil, nil, false
	has, _ := b.disk.written.last()
	s.trace(nil, "standby %d ends at %v", b.id, has)
	if has < had {
		s.fail("K2", "standby %d had %v on its disk, and has %v", b.id, had, has)
	}
}

// syncStandby continues the writing of its log.
func (s *Sim) syncStandby(b *standby) {
	switch d := &b.disk; {
	case d.syncing && s.percent(50):
		d.makeDurable(max(d.syncTo, d.durableCount()))
		d.syncing = false
	case !d.syncing && len(d.pending) > 0:
		d.syncing, d.syncTo = true, d.count
	}
}

// copy gets on with a copy.
func (s *Sim) copy(b *standby) {
	switch {
	case b.fetched != nil:
		s.installCopy(b)
	case b.from == nil:
		s.findSource(b)
	case !b.from.runs() || b.from.alone() && s.percent(3) || s.phase == phaseChaos && s.percent(3):
		b.from = nil
	case b.from.node == nil || !b.from.node.paused:
		s.followLog(b)
	}
	if b.state.Seeded() && s.percent(2) {
		s.purgeCopy(b)
	}
}

// via returns the copies through which a standby would get the log of a source.
func via(from *logSource) (list []zab.ID) {
	for from != nil && from.copy != nil && len(list) < 10 {
		list = append(list, from.copy.disk.durable.incarnation)
		from = from.copy.from
	}
	return list
}

// circle reports whether a standby must not follow a source.
func (b *standby) circle(from *logSource) bool {
	return copies.Circle(b.disk.durable.incarnation, via(from))
}

// anySource draws what a standby asks, or nil.
func (s *Sim) anySource(b *standby) *logSource {
	if i := s.rng.IntN(len(s.nodes) + len(s.standbys)); i < len(s.nodes) {
		if n := s.nodes[i]; n.alive && !n.paused {
			return &logSource{node: n, life: n.life}
		}
	} else if o := s.standbys[i-len(s.nodes)]; o.alive && o != b {
		return &logSource{copy: o, life: o.life}
	}
	return nil
}

// findSource asks a server for its log, or for its state if there is no copy yet.
func (s *Sim) findSource(b *standby) {
	if s.phase == phaseChaos && s.percent(5) {
		s.askStranger(b)
		return
	}
	from := s.anySource(b)
	if from == nil {
		return
	}
	verdict := copies.Sends(from.point(), copies.PointOf(&b.state))
	switch {
	case !b.state.Seeded():
		s.fetch(b, from)
	case verdict == copies.OtherHistory && s.former(b) && s.percent(20):
		s.empty(b)
	case verdict == copies.Fits:
		if from.point().History != b.state.Init.Cluster {
			s.fail("K3", "standby %d is sent another history: %v", b.id, from.point())
		}
		if h := from.log(); b.state.Zxid < h.start {
			if other := s.anySource(b); other != nil {
				s.fetch(b, other)
			}
		} else if _, has := h.chainAt(b.state.Zxid); has && !b.circle(from) {
			b.from = from
		}
	}
}

// former reports whether a standby has a copy of an ensemble whose place another one has taken.
func (s *Sim) former(b *standby) bool {
	return b.state.Seeded() && b.state.Init.Cluster != s.ghost.state.Init.Cluster
}

// empty removes a copy, as operators do who want one of another ensemble.
func (s *Sim) empty(b *standby) {
	s.stats.Emptied++
	life := b.life
	*b = *s.newStandby(b.id)
	b.life = life
}

// askStranger asks a server of another ensemble, by mistake. It may send what it has to everybody.
func (s *Sim) askStranger(b *standby) {
	at := copies.PointOf(&b.state)
	stranger := copies.Point{History: s.newID(), Zxid: at.Zxid + jute.Zxid(s.rng.IntN(3))}
	state := zab.State{Zxid: stranger.Zxid, Init: zab.ClusterInit{Cluster: stranger.History}}
	if !b.state.Seeded() {
		return // it would be a copy of that ensemble
	}
	if copies.Sends(stranger, at) != copies.OtherHistory {
		s.fail("K3", "a server of another ensemble sends its log to standby %d", b.id)
	}
	if copies.Begins(at, copies.Point{History: stranger.History, Zxid: at.Zxid}) || copies.Begins(at, copies.Point{History: at.History, Zxid: at.Zxid + 1}) {
		s.fail("K3", "standby %d takes a stream that does not continue its copy", b.id)
	}
	if copies.Installs(&b.state, &state) != copies.OtherHistory {
		s.fail("K3", "standby %d takes the state of another ensemble", b.id)
	}
}

// followLog takes some entries that the source has sent.
func (s *Sim) followLog(b *standby) {
	h, applied := b.from.log(), b.from.point().Zxid
	if b.state.Zxid < h.start {
		b.from = nil // it was purged
		return
	}
	i, most := h.search(b.state.Zxid), 1+s.rng.IntN(20)
	for ; i < len(h.ents) && most > 0 && copies.Settled(h.ents[i].Zxid, applied); i++ {
		e := &h.ents[i].Entry
		if e.Prev != b.state.Zxid {
			s.fail("K1", "standby %d is at %v, and is sent %v, which follows %v", b.id, b.state.Zxid, e.Zxid, e.Prev)
		}
		s.applyEntry(e, b.tree, &b.state, &s.txn, &s.result, func([]datatree.Event) {})
		b.chain = mix(b.chain, hashEntry(e))
		b.disk.write(logRecord{kind: recAppend, ent: chainedEntry{Entry: *e, chain: b.chain}})
		s.stats.Copied++
		s.checkCopy(b)
		most--
	}
}

// fetch gets the whole state of a server. It takes a while until it is there.
func (s *Sim) fetch(b *standby, from *logSource) {
	if n := from.node; n != nil && n.view == nil {
		b.fetched = s.takeState(n.tree, &n.state, n.chain)
	} else if n == nil {
		b.fetched = s.takeState(from.copy.tree, &from.copy.state, from.copy.chain)
	}
}

func (s *Sim) takeState(tree *datatree.Tree, state *zab.State, chain uint64) *snapshot {
	view := tree.Freeze()
	defer view.Close()
	return snapshotOf(view, state.Clone(), chain)
}

// installCopy installs the state that was fetched, if it fits.
func (s *Sim) installCopy(b *standby) {
	snap := b.fetched
	b.fetched = nil
	if copies.Installs(&b.state, &snap.state) != copies.Fits {
		return
	}
	if snap.zxid < b.state.Zxid {
		s.fail("K2", "standby %d installs a state at %v, and is at %v", b.id, snap.zxid, b.state.Zxid)
	}
	s.trace(nil, "standby %d installs the state at %v", b.id, snap.zxid)
	s.stats.States++
	s.writeCopy(b, logRecord{kind: recInstall, snap: snap})
	b.tree, b.state, b.chain = s.load(snap), snap.state.Clone(), snap.chain
	s.checkCopy(b)
}

// writeCopy makes a record of a standby durable, and all before it.
func (s *Sim) writeCopy(b *standby, r logRecord) {
	b.disk.write(r)
	b.disk.makeDurable(b.disk.count)
}

// purgeCopy takes a snapshot, and drops the log before it.
func (s *Sim) purgeCopy(b *standby) {
	snap := s.takeState(b.tree, &b.state, b.chain)
	s.writeCopy(b, logRecord{kind: recSnap, snap: snap})
	s.writeCopy(b, logRecord{kind: recForget, upto: snap.zxid})
	b.disk.written.purge(snap.zxid)
	b.disk.durable.purge(snap.zxid)
}

// checkCopy checks that a copy is what the ensemble was at its zxid, and that it is complete only if its disk has everything: K1, K4.
func (s *Sim) checkCopy(b *standby) {
	z := b.state.Zxid
	if z == 0 {
		return
	}
	i, ok := s.ghost.index(z)
	if !ok || s.ghost.commits[i].chain != b.chain {
		s.fail("K1", "standby %d has a history up to %v that is not the committed one", b.id, z)
	}
	if got, want := b.tree.Digest(), s.ghost.commits[i].digest; got != want {
		s.fail("K1", "standby %d has digest %v at %v, the reference has %v", b.id, got, z, want)
	}
	durable, _ := b.disk.durable.last()
	if copies.Complete(b.tree, durable) {
		s.stats.Complete++
		if durable != z {
			s.fail("K4", "standby %d says that it has everything of the retired ensemble, and has %v of %v on its disk", b.id, durable, z)
		}
	}
}

// allCopied reports whether all standbys have everything.
func (s *Sim) allCopied() bool {
	for _, b := range s.standbys {
		if !b.alive || b.state.Zxid != s.ghost.last {
			return false
		}
	}
	return true
}
