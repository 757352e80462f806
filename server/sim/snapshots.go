package sim

import (
	"bytes"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// freeze begins a snapshot, unless one is being written. Entries applied before it is finished must not show in it.
func (s *Sim) freeze(n *node) {
	if n.view != nil || n.made != nil || n.applied == 0 {
		return
	}
	n.sinceSnap = 0
	n.view = n.tree.Freeze()
	n.viewState, n.viewChain = n.state.Clone(), n.chain
	s.after(evSnapStep, n, s.between(1, s.cfg.SnapMs*2000))
}

// snapStep finishes the file of a snapshot, and after that writes its reference.
func (s *Sim) snapStep(n *node) {
	switch {
	case n.made != nil:
		s.refer(n)
	case n.view != nil: // else another server's snapshot came in between
		s.snapWritten(n)
	}
}

func (s *Sim) snapWritten(n *node) {
	snap := s.makeSnapshot(n)
	n.view.Close()
	n.view = nil
	if b := n.disk.written.base(); b != nil && b.zxid >= snap.zxid || !s.takesSnapshot(n, snap.bytes, n.shortage.forRoom) {
		n.shortage.forRoom = false
		return
	}
	s.checkSnapshot(n, snap)
	n.disk.data.keep(snap)
	s.fitDisk(n)
	n.made = snap
	s.after(evSnapStep, n, s.between(s.cfg.FsyncUs/4, s.cfg.FsyncUs))
}

// refer writes the reference to a snapshot whose file is there.
func (s *Sim) refer(n *node) {
	snap := n.made
	if b := n.disk.written.base(); b != nil && b.zxid >= snap.zxid { // the history was replaced meanwhile
		n.made, n.shortage.forRoom = nil, false
		n.disk.data.remove(snap)
		s.fitDisk(n)
		return
	}
	s.goAhead(n, logRecord{kind: recSnap, snap: snap}, func() {
		n.made = nil
		s.stats.Snapshots++
		s.ownSnapDurable(n, snap)
	})
}

func (s *Sim) makeSnapshot(n *node) *snapshot {
	snap := snapshotOf(n.view, n.viewState, n.viewChain)
	snap.by = n.disk.written.incarnation
	return snap
}

// snapshotOf makes a snapshot of what a view shows.
func snapshotOf(view *datatree.View, state zab.State, chain uint64) *snapshot {
	snap := &snapshot{zxid: state.Zxid, chain: chain, state: state, digest: view.Meta().Digest, bytes: 1000}
	var batch datatree.Batch
	for more := true; more; {
		batch.Reset()
		more = view.Step(&batch, 64<<10)
		for row := range batch.All() {
			snap.rows = append(snap.rows, datatree.Row{Table: row.Table, Key: bytes.Clone(row.Key), Value: bytes.Clone(row.Value)})
			snap.bytes += int64(len(row.Key) + len(row.Value))
		}
	}
	return snap
}

// checkSnapshot checks that a snapshot is the committed state at its zxid: I15.
func (s *Sim) checkSnapshot(n *node, snap *snapshot) {
	i, ok := s.ghost.index(snap.zxid)
	if !ok {
		s.fail("I15", "server %d makes a snapshot at %v, which is not committed", n.id, snap.zxid)
	}
	if c := &s.ghost.commits[i]; c.digest != snap.digest || c.chain != snap.chain {
		s.fail("I15", "server %d makes a snapshot at %v that is not the committed state there", n.id, snap.zxid)
	}
}

// load makes a tree from a snapshot. The loader checks the digest.
func (s *Sim) load(snap *snapshot) *datatree.Tree {
	l := datatree.NewLoader()
	for _, row := range snap.rows {
		if err := l.Add(row); err != nil {
			s.fail("I15", "snapshot at %v: %v", snap.zxid, err)
		}
	}
	tree, err := l.Finish()
	if err != nil {
		s.fail("I15", "snapshot at %v: %v", snap.zxid, err)
	}
	return tree
}

// ownSnapDurable lets the node purge older data.
func (s *Sim) ownSnapDurable(n *node, snap *snapshot) {
	n.core.SnapshotTaken(snap.zxid, snap.bytes)
	forRoom := n.shortage.forRoom
	n.shortage.forRoom = false
	s.purge(n, forRoom)
}

// purge drops the snapshots that are not to be kept, and the log that only they needed. forRoom keeps the newest one alone.
func (s *Sim) purge(n *node, forRoom bool) {
	d := &n.disk
	if d.replacing() {
		return
	}
	need := datadirs.NeedOf(n.full || n.shortage.level > wal.SpaceOK, forRoom)
	plan := datadirs.PlanPurge(d.durable.snaps, func(snap *snapshot) jute.Zxid { return snap.zxid }, s.cfg.SnapRetain, n.core.Needs(), need)
	if plan.Log == 0 {
		return
	}
	n.squeezed = n.squeezed || need == datadirs.Full || need == datadirs.Tight && plan.Held > 0
	if left := len(d.durable.snaps) - plan.Drop; forRoom && left > 1 {
		s.fail("N4", "server %d has a full disk, and leaves %d snapshots", n.id, left)
	}
	first := d.durable.snaps[plan.Drop]
	s.goAhead(n, logRecord{kind: recForget, upto: first.zxid}, func() { s.drop(n, plan.Log, first) })
}

// drop removes the log up to a zxid, and the snapshots before the first one that is kept.
func (s *Sim) drop(n *node, upto jute.Zxid, first *snapshot) {
	d := &n.disk
	if d.replacing() || len(d.durable.snaps) == 0 || d.durable.snaps[0] != first {
		return // another one came in between
	}
	purged := d.durable.purge(upto)
	d.written.purge(upto)
	d.data.removeBefore(first.zxid)
	if d.real != nil {
		d.real.purge(upto)
	}
	s.fitDisk(n)
	if purged {
		s.stats.Purges++
		n.core.LogPurged(d.written.start, d.written.bytes())
	}
}

// readLog reads entries for a learner.
func (s *Sim) readLog(n *node, req zab.LogRead) {
	s.stats.LogReads++
	us := s.cfg.ReadUs
	if s.phase != phaseChaos {
		us = min(us, 200)
	}
	s.afterPacket(evLogRead, n, s.between(us/2, us), &packet{to: n.idx, read: req})
}

func (s *Sim) logRead(n *node, req *zab.LogRead) {
	list, ok := n.disk.written.read(req.After, req.MaxBytes)
	if s.tracing {
		s.trace(n, "log read for %d after %v: %d entries, %v", req.Peer, req.After, len(list), ok)
	}
	switch before := &n.read[req.Peer-1]; {
	case ok:
		before.add(req)
	case !before.have(req): // else the learner has had these entries
		s.checkHeld(n, req)
	}
	n.core.LogRead(req.Peer, req.Gen, req.After, list, !ok)
	s.takeOutputs(n)
}

// reads is where reads of the log for a learner have begun, over one link.
type reads struct {
	gen   uint64
	after map[jute.Zxid]bool
}

func (r *reads) add(req *zab.LogRead) {
	if r.gen != req.Gen || r.after == nil {
		r.gen, r.after = req.Gen, make(map[jute.Zxid]bool)
	}
	r.after[req.After] = true
}

// have reports whether there was a read for the same entries: a second one is for a message that came late.
func (r *reads) have(req *zab.LogRead) bool { return r.gen == req.Gen && r.after[req.After] }

// checkHeld checks that a learner that makes progress needs no entry that the log no longer
// has: L3.
func (s *Sim) checkHeld(n *node, req *zab.LogRead) {
	l := s.linkTo(n, req.Peer)
	if n.leads == 0 || l == nil || l.gen[l.side(n)] != req.Gen || !n.inLog[req.Peer-1] || n.squeezed {
		return
	}
	if last, _ := s.node(req.Peer).disk.written.last(); last > req.After {
		return // it got the entries from an earlier message, which came late
	}
	if still := s.now - n.moved[req.Peer-1]; still < 2*s.cfg.InitMs*1000 {
		s.fail("L3", "server %d has purged its log after %v, and server %d, which needs it, got on %d ms ago", n.id, req.After, req.Peer, still/1000)
	}
}

// checkLost checks that a learner reports lost entries only if a link has lost something:
// L2.
func (s *Sim) checkLost(n *node, e *zab.Event) {
	l := s.linkTo(n, e.Peer)
	if l == nil {
		return
	}
	if side := 1 - l.side(n); !l.lossy[side] && !l.messagesLost[side] {
		s.fail("L2", "server %d: %s; but the link from server %d has lost nothing", n.id, e.Text, e.Peer)
	}
}

// transfer is a snapshot in transit to a learner. The receiver reads nothing before its core
// waits for the snapshot.
type transfer struct {
	req   zab.SnapSend
	snap  *snapshot
	from  *node
	to    *node
	life  uint32 // of the receiver's process
	link  *link  // on which the sender learned what the receiver needs
	left  int64  // bytes
	tries int    // attempts, while the receiver's core does not wait for it
}

// xferSteps is the number of steps in which a snapshot is sent.
const xferSteps = 16

// sendSnap sends the newest snapshot to a learner.
func (s *Sim) sendSnap(n *node, req zab.SnapSend) {
	delete(n.sends, req.Peer) // cancels the transfer under way
	if req.Stop {
		return
	}
	x := &transfer{req: req, from: n, to: s.node(req.Peer)}
	x.life = x.to.life
	if l := s.linkTo(n, req.Peer); l != nil && l.gen[l.side(n)] == req.Gen {
		x.link = l
	}
	for _, o := range n.disk.durable.snaps {
		if o.zxid >= req.AtLeast {
			x.snap = o
		}
	}
	n.sends[req.Peer] = x
	if x.snap != nil {
		x.left = x.snap.bytes + s.cfg.SnapBytes
		n.core.SnapshotBegun(req.Peer, req.Gen, req.Token, x.snap.zxid)
		n.moved[req.Peer-1] = s.now
	}
	s.afterPacket(evXfer, n, s.between(s.cfg.SnapMs*100, s.cfg.SnapMs*2000), &packet{xfer: x})
}

// xferStep sends a part of a snapshot, unless the transfer was cancelled.
func (s *Sim) xferStep(n *node, x *transfer) {
	from, token := zab.SID(0), uint64(0)
	switch {
	case n.sends[x.req.Peer] != x:
		return
	case x.snap == nil:
		s.freeze(n) // so that there is one at the next request
		s.xferEnd(n, x, false)
		return
	case x.link == nil || !x.link.works(n) || !x.to.alive || x.to.life != x.life || x.tries > 1000:
		s.xferEnd(n, x, false)
		return
	case !x.to.paused:
		from, token = x.to.core.WantsSnapshot()
	}
	if from != n.id || token != x.req.Token { // the receiver does not read it
		x.tries++
		s.afterPacket(evXfer, n, s.heartbeat()*500, &packet{xfer: x})
		return
	}
	if x.left == 0 {
		s.stats.SnapSends++
		s.afterPacket(evSnapGot, x.to, s.between(s.cfg.FsyncUs, s.cfg.FsyncUs*4), &packet{xfer: x})
		return
	}
	piece := min(x.left, (x.snap.bytes+s.cfg.SnapBytes)/xferSteps+1)
	x.left -= piece
	n.gotTo[x.to.idx], x.to.cameFrom[n.idx] = true, true
	s.afterPacket(evXfer, n, s.deliveryTime(n, x.to, int(piece), laneBulk)-s.now, &packet{xfer: x})
}

// xferEnd tells the sender the outcome.
func (s *Sim) xferEnd(n *node, x *transfer, ok bool) {
	if n.sends[x.req.Peer] != x {
		return
	}
	delete(n.sends, x.req.Peer)
	zxid := jute.Zxid(0)
	if ok {
		zxid = x.snap.zxid
	}
	n.core.SnapshotSent(x.req.Peer, x.req.Gen, x.req.Token, zxid, ok)
	s.takeOutputs(n)
}

// snapGot reports a received snapshot that is now durable in its file.
func (s *Sim) snapGot(n *node, x *transfer) {
	snap := x.snap
	info := zab.SnapInfo{Zxid: snap.zxid, State: snap.state.Clone(), Bytes: snap.bytes, Ref: snap}
	if from, token := n.core.WantsSnapshot(); from != x.from.id || token != x.req.Token {
		s.afterPacket(evXfer, x.from, 1, &packet{xfer: x}) // it waits until it is wanted again
		return
	}
	if !s.takesSnapshot(n, snap.bytes, false) {
		s.xferEnd(x.from, x, false)
		return
	}
	n.disk.data.keep(snap)
	s.fitDisk(n)
	ok := n.core.SnapshotReceived(x.from.id, x.req.Token, info)
	s.takeOutputs(n)
	if x.from.alive && x.link.works(n) {
		s.xferEnd(x.from, x, ok)
	}
}
