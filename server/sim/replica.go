package sim

import (
	"bytes"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/zab"
)

// A node runs the same replica as servers, with the simulator's disk, network and applier
// around it.

// nodeView is a replica's view of its node.
type nodeView struct{ *node }

func (d nodeView) RLock() *datatree.Tree { return d.tree }
func (d nodeView) RUnlock()              {}
func (d nodeView) Applied() jute.Zxid    { return d.applied }
func (d nodeView) Full() bool            { return d.diskFull() }
func (d nodeView) RoomForDeletes() bool  { return d.takesDeletes() }

func (d nodeView) DigestAt(zxid jute.Zxid) (datatree.Digest, bool) {
	digest, ok := d.digests[zxid]
	return digest, ok
}

func (s *Sim) newReplica(n *node, r zab.Recovered) *replica.Replica {
	n.core = zab.New(s.options(n), r)
	n.backlog = new(atomic.Int64)
	return replica.New(n.core, n.applied, replica.Options{
		ID:           n.id,
		Ensemble:     true,
		LeaderServes: true,
		Evaluate:     evaluate.Options{MaxListed: s.cfg.MaxListed, ReconfigEnabled: true, EnforceQuota: s.cfg.FatalPct > 0, QuotaExceeded: n.exceeded},
		Reads:        s.allRead,
		Reconfigure:  s.reconfigure,
		Autopilot:    s.autopilot(),
		Join:         s.joinLine(n),
		Schemes:      s.schemes,
		Limits:       s.limits(n),
		State:        nodeView{n},
		Disk:         nodeView{n},
		Room:         func() int64 { return n.room },
		Tracker:      n.tracker,
		Backlog:      n.backlog,
		NewOrigin:    n.newOrigin,
		Weights:      func() *limits.Weights { return s.weights },
		Now:          func() time.Duration { return time.Duration(n.localMs()) * time.Millisecond },
		Wall:         func() int64 { return int64(s.now / 1000) },
		Proposed:     func(int) { s.stats.Proposals++ },
	})
}

func (s *Sim) limits(n *node) replica.Limits {
	c := s.cfg
	if n.settings != nil {
		n.settings.apply(&c)
	}
	l := replica.Limits{Waiting: 1 << 20, Proposals: 1 << 20, Backlog: 1 << 20, Log: 1 << 20, Closings: c.Closings, Short: c.Short, Turn: c.Turn, Work: c.Work}
	if c.Backlog > 0 {
		l.Proposals, l.Backlog, l.Log = c.Backlog, c.Backlog, c.Backlog
	}
	if c.Waiting > 0 {
		l.Waiting = c.Waiting
	}
	return l
}

// newOrigin returns a number for a connection, higher than all earlier ones on this server.
func (n *node) newOrigin() uint64 {
	n.lastConn++
	return uint64(n.id)<<56 | uint64(n.life)<<32 | uint64(n.lastConn)
}

// allRead returns the version of format.History that the servers read. In some runs a server of
// an earlier version comes and goes.
func (s *Sim) allRead() uint32 {
	if ms := s.cfg.MixedMs; ms > 0 && s.now/1000/ms%2 == 0 {
		return datatree.FormatOwner - 1
	}
	return datatree.FormatRetired
}

// leading reports whether the node leads and serves.
func (n *node) leading() bool { return n.alive && n.status.Role == zab.Leading }

// hand adds a request to those that the replica gets next.
func (s *Sim) hand(n *node, sub replica.Submission) {
	if n.status.Role == zab.Following {
		s.stats.Forwards++
	}
	n.inbox = append(n.inbox, sub)
}

// handOver hands the clients' requests to the replica, and reports whether there were any.
func (s *Sim) handOver(n *node) bool {
	if len(n.inbox) == 0 {
		return false
	}
	n.rep.Submit(n.inbox)
	n.inbox = n.inbox[:0]
	return true
}

// sendFrame sends a frame of the replica.
func (s *Sim) sendFrame(n *node, f *replica.Frame) {
	touches := n.telling
	if f.Urgent {
		n.telling = nil
	}
	l := s.linkTo(n, f.To)
	if l == nil || l.gen[l.side(n)] != f.Gen {
		return
	}
	if s.tracing {
		s.trace(n, "send to %d: %s", f.To, replica.DescribeFrame(f.Kind, f.Body))
	}
	p := s.newPacket()
	p.from, p.to, p.link, p.bulk, p.frame, p.raw = n.idx, int8(f.To-1), l, !f.Urgent, f.Kind, bytes.Clone(f.Body)
	if f.Urgent {
		p.touches = touches
	}
	s.put(n, l, l.side(n), p, false)
}

// hearFrame delivers a frame to the replica.
func (s *Sim) hearFrame(n *node, p *packet) {
	from := zab.SID(p.from + 1)
	if p.frame == frameMembers {
		s.hearMembers(n, p.raw)
		return
	}
	if s.tracing {
		s.trace(n, "from %d: %s", from, replica.DescribeFrame(p.frame, p.raw))
	}
	if err := n.rep.Frame(from, p.link.gen[p.link.side(n)], p.frame, p.raw); err != nil {
		s.fail("Frame", "server %d gets a frame of kind %d from %d: %v", n.id, p.frame, from, err)
	}
	for _, t := range p.touches {
		if n.leading() && n.tracker.Get(t.session) != nil && !n.tracker.IsClosing(t.session) {
			s.noteTouch(n, t.session, t.timeout, t.at)
		}
	}
	s.takeOutputs(n)
}

// carryOrders queues the orders to be applied: I10, I12.
func (s *Sim) carryOrders(n *node) {
	for i := range n.out.Orders {
		o := &n.out.Orders[i]
		switch o.Kind {
		case replica.OrderBarrier, replica.OrderInterlude, replica.OrderFence:
			continue
		}
		if o.Zxid <= n.collected {
			s.fail("I10", "server %d is given %v to apply after %v", n.id, o.Zxid, n.collected)
		}
		n.collected = o.Zxid
	}
	if n.collected > n.core.Committed() {
		s.fail("I12", "server %d is given %v to apply, but knows commit %v", n.id, n.collected, n.core.Committed())
	}
	n.queue = append(n.queue, n.out.Orders...)
	if n.leading() {
		for _, id := range n.out.Expired {
			s.checkExpiry(n, id)
		}
	}
	for _, origin := range n.out.End {
		if c := n.conn(origin); c != nil {
			c.Kill()
		}
	}
	limits := s.limits(n)
	if limit := limits.Proposals; n.rep.Held().ProposalBytes > limit || n.backlog.Load() > limits.Backlog {
		s.fail("B1", "server %d holds %d bytes of proposals and %d of its backlog", n.id, n.rep.Held().ProposalBytes, n.backlog.Load())
	}
}

// serviceChanged handles the end and the begin of a service: see also interlude.go.
func (s *Sim) serviceChanged(n *node) {
	if n.out.ServiceEnded {
		s.endService(n)
	}
	if !n.out.ServiceBegan {
		return
	}
	n.service = n.rep.Service()
	if n.status.Role == zab.Leading {
		s.trace(n, "leads epoch %d", n.status.Epoch)
		s.stats.Leads++
		n.heard = make(map[jute.SessionID]int64)
		for id := range n.tree.Sessions() {
			n.heard[id] = int64(s.now) - n.pausedFor
		}
	}
}

// applySoon applies the queue, either at once or later, like a separate goroutine.
func (s *Sim) applySoon(n *node) {
	switch {
	case n.applying || len(n.queue) == 0:
	case s.cfg.ApplyUs == 0:
		s.applyAll(n)
	default:
		n.applying = true
		s.after(evApply, n, s.between(1, 2*s.cfg.ApplyUs))
	}
}

// applyAll applies the queue, and answers the requests that wait for it.
func (s *Sim) applyAll(n *node) {
	n.applying = false
	for len(n.queue) > 0 {
		o := n.queue[0]
		n.queue = append(n.queue[:0], n.queue[1:]...)
		skips := n.superseded > n.applied // a snapshot will replace the tree
		switch o.Kind {
		case replica.OrderEntry:
			n.backlog.Add(-o.Held)
			if !skips {
				s.applyOne(n, &o, o.Txn)
				if s.cfg.WorkUs > 0 && len(n.queue) > 0 {
					s.applyLater(n, uint64(1+len(s.result.Results)+len(s.result.Events))*s.cfg.WorkUs)
					return
				}
			}
		case replica.OrderReplay:
			if !skips {
				s.replay(n, o.Zxid)
			}
		case replica.OrderInstall:
			s.install(n, o.Install.(*snapshot))
		case replica.OrderBarrier:
			if !skips {
				n.answers.Begin(n.localTime())
				n.answers.Barrier(&o)
			}
		case replica.OrderInterlude:
			n.answers.BeginInterlude()
		case replica.OrderFence:
			n.answers.EndInterlude(o.Origin)
			s.checkInterlude(n)
		}
	}
	if each := s.cfg.SnapshotEach; each > 0 && n.sinceSnap >= each {
		s.freeze(n)
	}
	n.again = true
}

// applyLater applies the rest of the queue when the entry that was applied has taken its time.
func (s *Sim) applyLater(n *node, us uint64) {
	n.applying, n.again = true, true
	s.after(evApply, n, us)
}

// replay applies entries from the log that are no longer in memory.
func (s *Sim) replay(n *node, upTo jute.Zxid) {
	h := &n.disk.written
	list, ok := h.read(n.applied, 1<<30)
	if !ok || !h.has(upTo) {
		s.fail("I10", "server %d is told to apply (%v, %v], which its log does not have", n.id, n.applied, upTo)
	}
	s.stats.Replays++
	for i := range list {
		if list[i].Zxid <= upTo {
			s.applyOne(n, &replica.Order{Entry: list[i]}, nil)
		}
	}
}

// applyOne applies an entry. txn is its transaction, or nil if it has to be decoded.
func (s *Sim) applyOne(n *node, o *replica.Order, txn *datatree.Txn) {
	e := &o.Entry
	if e.Prev != n.applied {
		s.fail("I10", "server %d applies %v, which follows %v, after %v", n.id, e.Zxid, e.Prev, n.applied)
	}
	if txn != nil && txn.Zxid != e.Zxid {
		s.fail("I10", "server %d applies transaction %v as %v", n.id, txn.Zxid, e.Zxid)
	}
	if txn == nil {
		txn = &s.txn
		s.decode(e, txn)
	} else {
		defer replica.RecycleTxn(txn)
	}
	n.answers.Begin(n.localTime())
	if e.Txn() != nil {
		n.answers.BeforeApply(txn)
	}
	if s.cfg.HerdPct > 0 {
		n.lines.State.BeginSlices()
	}
	s.applyParts(e, n.tree, &n.state, txn, &s.result, func([]datatree.Event) {
		n.answers.Events(txn, &s.result)
		s.betweenSlices(n)
	})
	n.applied = e.Zxid
	n.lines.State.SetApplied(e.Zxid)
	n.lines.State.EndSlices()
	n.chain = mix(n.chain, hashEntry(e))
	n.sinceSnap++
	s.checkApplied(n)
	if e.Zxid%16 == 0 {
		n.digests[e.Zxid] = n.tree.Digest()
		n.rep.Digest(e.Zxid, n.tree.Digest())
	}
	s.noteSessions(n, txn)
	n.answers.Applied(o, txn, &s.result, replica.ServerOf(txn.Origin) == n.id)
	s.feedSoon(n)
}

// install replaces a node's state by a received snapshot.
func (s *Sim) install(n *node, snap *snapshot) {
	if n.view != nil {
		n.view.Close()
		n.view = nil
	}
	n.tree, n.state, n.applied, n.chain = s.load(snap), snap.state.Clone(), snap.zxid, snap.chain
	n.answers.EndAll()
	n.answers.Install(n.tree, n.localTime())
	n.sinceSnap = 0
	n.again = true
	n.changesSince = n.applied
	s.trace(n, "install snapshot at %v", snap.zxid)
	s.checkApplied(n)
}

// checkExpiry checks that a session to be closed has been silent for its timeout, as far as
// this leader could know: S3.
func (s *Sim) checkExpiry(n *node, id jute.SessionID) {
	heard, ok := n.heard[id]
	t := n.tracker.Get(id)
	if !ok || t == nil {
		return // it was closed meanwhile
	}
	silent := int64(s.now) - n.pausedFor - heard
	if ms := t.TimeoutMs(); silent < int64(ms)*1000*85/100 {
		s.fail("S3", "server %d lets session %v expire after %d ms of %d", n.id, id, silent/1000, ms)
	}
}

// noteTouch is like noteHeard for a touch. On a connection that asked for a shorter timeout
// than the session's, and has had no answer, a touch counts for no longer than that
// timeout.
func (s *Sim) noteTouch(n *node, id jute.SessionID, timeoutMs int32, at uint64) {
	if t := n.tracker.Get(id); t == nil || timeoutMs >= t.TimeoutMs() {
		s.noteHeard(n, id, at)
	}
}

// noteHeard tells the ghost that a leader knows that a session was alive at a time. Earlier
// pauses of the leader do not count.
func (s *Sim) noteHeard(n *node, id jute.SessionID, at uint64) {
	n.heard[id] = max(n.heard[id], int64(at)-n.pausedFor)
}

// nothingHeld reports whether a node holds nothing in memory for requests: B2.
func (s *Sim) nothingHeld(n *node) bool {
	h := n.rep.Held()
	return h.Waiting+h.Proposals+h.Overlay+h.Barriers+h.Reads+h.Ready == 0 && h.WaitingBytes+h.ProposalBytes+n.backlog.Load() == 0
}
