package sim

import (
	"slices"

	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/zab"
)

// scheduleFault schedules the next fault of a kind.
func (s *Sim) scheduleFault(f Fault) {
	if mean := s.cfg.Faults[f]; mean > 0 {
		s.agenda.push(event{at: s.now + s.between(0, 2000*mean), kind: evFault, node: -1, arg: int32(f)})
	}
}

// inject causes a fault.
func (s *Sim) inject(f Fault) {
	if s.phase != phaseChaos {
		return
	}
	s.scheduleFault(f)
	s.stats.Faults[f]++
	n := s.anyNode()
	switch f {
	case FaultKill, FaultPower:
		s.trace(n, "fault: %v", f)
		s.crash(n, f == FaultPower)
		s.restartLater(n)
	case FaultPowerAll:
		s.trace(nil, "fault: %v", f)
		for _, n := range s.nodes {
			s.crash(n, true)
			s.restartLater(n)
		}
	case FaultInside:
		if n.alive {
			n.inside = 1 + s.rng.IntN(20)
		}
	case FaultPause:
		s.pause(n, s.between(s.cfg.ElectionMs*50, s.cfg.ElectionMs*3000))
	case FaultBreak:
		s.breakLink(s.anyLink(n), [2]uint64{s.between(0, 1000), s.between(0, 1000)})
	case FaultHalfOpen:
		after := [2]uint64{s.between(0, 1000), s.between(0, s.cfg.ElectionMs*3000)}
		if s.percent(50) {
			after[0], after[1] = after[1], after[0]
		}
		s.breakLink(s.anyLink(n), after)
	case FaultBlock:
		if o := s.anyNode(); o != n {
			s.trace(nil, "fault: block %d to %d", n.id, o.id)
			s.block(n, o)
			s.afterUndo(s.between(s.cfg.ElectionMs*100, s.cfg.ElectionMs*5000), func() { s.unblock(n, o) })
		}
	case FaultPartition:
		s.partition()
	case FaultSlow:
		if l := s.anyLink(n); l != nil {
			l.slow = s.between(s.cfg.NetUs, s.cfg.ElectionMs*400)
			s.afterUndo(s.between(s.cfg.ElectionMs*500, s.cfg.ElectionMs*5000), func() { l.slow = 0 })
		}
	case FaultStall:
		n.stallUntil = s.now + s.between(s.cfg.ElectionMs*100, s.cfg.ElectionMs*5000)
	case FaultFull:
		n.full = true
		s.afterUndo(s.between(s.cfg.ElectionMs*500, s.cfg.ElectionMs*5000), func() { n.full = false })
	case FaultShort:
		s.takeRoom(n)
	case FaultMemory:
		n.room = max(1, s.ghost.tree.Memory()+int64(s.between(0, 20<<10))-4<<10)
		s.afterUndo(s.between(s.cfg.ElectionMs*500, s.cfg.ElectionMs*5000), func() { n.room = 0 })
	case FaultTransfer:
		if l := s.leader(); l != nil && !l.paused {
			if s.percent(50) {
				l.core.Transfer()
			} else if to := s.anyNode(); l.core.TransferTo(to.id) == nil {
				s.trace(l, "hands over to %d", to.id)
			}
			s.takeOutputs(l)
		}
	case FaultGone:
		s.trace(n, "fault: %v", f)
		s.leave(n)
	case FaultWipe, FaultDamage, FaultRollback, FaultOldCopy, FaultBadSnaps:
		s.planDiskFault(n, f)
	case FaultVolumes:
		s.loseVolumes(n)
	case FaultMembers:
		s.changeMembers()
	case FaultRetire:
		s.retireLater()
	case FaultEdge:
		s.troubleEdge()
	case FaultFiles:
		s.changeFile(n)
	case FaultBadSync:
		s.trace(n, "fault: %v", f)
		s.crash(n, true) // the data of the fsync may be on the disk or not
		s.restartLater(n)
	}
}

func (s *Sim) anyNode() *node {
	if s.percent(25) {
		if l := s.leader(); l != nil {
			return l
		}
	}
	return s.nodes[s.rng.IntN(len(s.nodes))]
}

// leader returns the node that leads the highest epoch, or nil.
func (s *Sim) leader() *node {
	var best *node
	for _, n := range s.nodes {
		if n.alive && n.status.Role == zab.Leading && (best == nil || n.status.Epoch > best.status.Epoch) {
			best = n
		}
	}
	return best
}

func (s *Sim) anyLink(n *node) *link {
	return s.links[n.idx][s.rng.IntN(len(s.nodes))]
}

func (s *Sim) restartLater(n *node) {
	after := s.between(1000, s.cfg.ElectionMs*3000)
	if s.percent(40) {
		after = s.between(10, 2000)
	}
	s.agenda.push(event{at: s.now + after, kind: evRestart, node: n.idx})
}

// pause stops a process. Events for it wait meanwhile.
func (s *Sim) pause(n *node, us uint64) {
	if !n.alive || n.paused {
		return
	}
	s.trace(n, "paused for %d ms", us/1000)
	n.paused = true
	n.pausedAt = s.now
	s.after(evResume, n, us)
}

func (s *Sim) resumeNode(n *node) {
	s.trace(n, "resumed")
	n.paused = false
	if us, short := s.now-n.pausedAt, s.cfg.TickMs*6000; us > short {
		n.pausedFor += int64(us - short) // shorter pauses are not noticed
	}
	held := s.held[n.idx]
	s.held[n.idx] = nil
	for i := range held {
		held[i].at = s.now
	}
	ticksFirst := s.percent(50) // the process may see the clock before the messages, or after them
	slices.SortStableFunc(held, func(e, o event) int {
		switch tick := e.kind == evTick; {
		case tick == (o.kind == evTick):
			return 0
		case tick == ticksFirst:
			return -1
		}
		return 1
	})
	// Before the messages that arrive now: links keep their order across a pause.
	s.agenda.pushFirst(held)
}

func (s *Sim) block(a, b *node)   { s.blocks[a.idx][b.idx]++ }
func (s *Sim) unblock(a, b *node) { s.blocks[a.idx][b.idx]-- }

// partition divides the servers, or lets them reach only some others.
func (s *Sim) partition() {
	k := len(s.nodes)
	var cut [16][16]bool
	shape := s.rng.IntN(4)
	hub := s.rng.IntN(k)
	group := s.rng.Uint32()
	if l := s.leader(); l != nil && s.percent(50) {
		hub = int(l.idx)
	}
	for i := range k {
		for j := range k {
			switch shape {
			case 0: // two parts
				cut[i][j] = group>>i&1 != group>>j&1
			case 1: // one alone
				cut[i][j] = (i == hub) != (j == hub)
			case 2: // a bridge: two parts that both see one
				cut[i][j] = i != hub && j != hub && group>>i&1 != group>>j&1
			case 3: // a ring
				d := (i - j + k) % k
				cut[i][j] = d != 0 && d != 1 && d != k-1
			}
		}
	}
	s.trace(nil, "fault: partition of shape %d around %d", shape, hub+1)
	apply := func(by int) {
		for i := range k {
			for j := range k {
				if cut[i][j] {
					s.blocks[i][j] += by
				}
			}
		}
	}
	apply(1)
	s.afterUndo(s.between(s.cfg.ElectionMs*300, s.cfg.ElectionMs*6000), func() { apply(-1) })
}

// planDiskFault destroys a server's data if the others can do without it: the servers that
// count and keep their disks must still be a quorum. An old copy is put back under its own
// incarnation only if all others would recognize it.
func (s *Sim) planDiskFault(n *node, f Fault) {
	if n.away != nil || n.torn || n.badSnaps || n.badNewest {
		return
	}
	old := f == FaultRollback || f == FaultOldCopy
	if !n.disk.durable.exists {
		return
	}
	if old && n.copy == nil || s.percent(30) {
		h := n.disk.durable.clone()
		n.copy = &h
		return
	}
	if !s.mayLoseDisk(n) || f == FaultOldCopy && !s.knownToBeOld(n) || n.leavesNothing(f) && s.couldFound(n) {
		return
	}
	s.trace(n, "fault: %v", f)
	s.crash(n, true)
	switch f {
	case FaultWipe:
		n.next.wipe = true
	case FaultDamage:
		n.next.damage = true
	case FaultRollback:
		n.next.rollback = true
	case FaultOldCopy:
		n.next.oldCopy = true
	case FaultBadSnaps:
		n.next.badSnaps = true
	}
	s.injectDiskFault(n)
	s.restartLater(n)
}

// leavesNothing reports whether a fault leaves a server like a new one: without data, and unknown to
// the others. A copy from before the founding, put back under another incarnation, is no more than an
// empty disk. Put back under its own incarnation it is recognized, so that nobody founds with it.
func (n *node) leavesNothing(f Fault) bool {
	return f == FaultWipe || f == FaultRollback && n.copy.empty()
}

// mayLoseDisk reports whether a server's disk may be lost now. While a server runs on an old
// copy, the others are needed, because they recognize it.
func (s *Sim) mayLoseDisk(n *node) bool {
	if slices.ContainsFunc(s.nodes, func(o *node) bool { return o.old }) {
		return false
	}
	rest := func(v zab.SID) bool {
		o := s.node(v)
		return o != n && s.counts(o) && s.wouldKnowCounted(o)
	}
	return s.ghost.last > 0 && s.decides(s.nodes, rest)
}

// knownToBeOld reports whether the copy of n would count if no server noticed it, and every
// other server has on its disk that the log of n was further, and also on a volume that may come back. A server that was a
// quorum by itself at the time of the copy asks no other server before it leads.
func (s *Sim) knownToBeOld(n *node) bool {
	if !s.ghost.state.Admits(n.id, n.copy.incarnation) {
		return false
	}
	last, _ := n.copy.last()
	for _, m := range s.configsAt(last) {
		if isQuorum(m, func(v zab.SID) bool { return v == n.id }) {
			return false
		}
	}
	knows := func(v *logVolume) bool {
		return slices.ContainsFunc(v.durable.notes.Sightings, func(g zab.Sighting) bool {
			return g.Server == n.id && g.Incarnation == n.copy.incarnation && g.Position > n.copy.records
		})
	}
	for _, o := range s.nodes {
		if o != n && (!knows(&o.disk.logVolume) || o.away != nil && o.away.which&lacksLog != 0 && !knows(&o.away.log)) {
			return false
		}
	}
	return true
}

// injectDiskFault changes the disk of a server that is down, as planned.
func (s *Sim) injectDiskFault(n *node) {
	d := &n.disk
	plan := n.next
	n.next = plans{}
	switch {
	case plan.wipe:
		s.stats.Wipes++
		before := d.durable.incarnation
		d.logVolume, d.data = logVolume{}, dataDir{}
		s.ghost.tops[n.id] = 0
		if !sameIncarnation.Planted() {
			return
		}
		d.durable.exists, d.durable.incarnation = true, before
	case plan.badSnaps:
		s.stats.BadSnaps++
		n.badNewest = (len(d.durable.snaps) > 1 || d.durable.start == 0) && s.percent(50)
		n.badSnaps = !n.badNewest
		return
	case plan.rollback:
		s.stats.Rollbacks++
		if n.copy != nil {
			d.durable = n.copy.clone()
			d.data.keep(d.durable.snaps...)
		}
	case plan.oldCopy:
		s.stats.OldCopies++
		d.durable = n.copy.clone()
		d.data.keep(d.durable.snaps...)
		n.old = true
	case plan.damage:
		s.stats.Damages++
		s.damage(n)
		n.torn = d.durable.damaged
	default:
		return
	}
	renamed := plan.rollback
	renamed = renamed && !sameIncarnation.Planted()
	if renamed {
		d.durable.incarnation = s.newID()
	}
	if !n.torn {
		d.data.owner = &datadirs.Owner{Server: n.id, Incarnation: d.durable.incarnation}
	}
	d.cut()
	d.pending = nil
	if s.ghost.last > 0 && !n.torn {
		s.checkDurable(s.ghost.last, "server %d lost what it had", n.id)
	}
	s.ghost.tops[n.id] = d.durable.promise.Epoch
	if s.cfg.WAL {
		s.newReal(n)
	}
}

// damage drops the end of the log, and perhaps a promise.
func (s *Sim) damage(n *node) {
	d := &n.disk
	h := &d.durable
	h.damaged = true
	if damageUnseen.Planted() {
		h.damaged = false
	}
	if h.damaged {
		h.notes = zab.Notes{} // the log that replaces it is empty
	}
	if k := len(h.ents); k > 0 {
		h.ents = h.ents[:s.rng.IntN(k+1)]
	}
	if b := h.base(); b != nil {
		if last, _ := h.last(); last < b.zxid { // the snapshot has everything up to its zxid
			h.ents, h.start, h.startChain = nil, b.zxid, b.chain
			h.snaps = h.snaps[len(h.snaps)-1:]
		}
	}
	last, _ := h.last()
	h.hint = min(h.hint, last)
	if s.percent(50) {
		h.promise = zab.Promise{Epoch: last.Epoch(), To: h.promise.To}
		if last.Epoch() == 0 {
			h.promise = zab.Promise{}
		}
	}
}

// heal ends all faults for some servers: they run, and reach each other.
func (s *Sim) heal(list []*node) {
	for _, n := range list {
		n.full, n.room, n.stallUntil, n.inside = false, 0, 0, 0
		s.setCapacity(n, 0)
		if n.paused {
			s.resumeNode(n)
		}
		if !n.alive {
			s.restart(n)
		}
		for _, o := range list {
			s.blocks[n.idx][o.idx] = 0
			if l := s.links[n.idx][o.idx]; l != nil {
				l.slow = 0
				if l.lossy[0] || l.lossy[1] || s.cfg.DropPct > 0 {
					s.breakLink(l, [2]uint64{0, 0})
				}
			}
			if o != n && n.alive && o.alive {
				s.dial(n, o, 1000)
			}
		}
	}
}
