package sim

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/zab"
)

// What servers say to each other besides the core's messages: requests that
// followers pass on, the places where requests without a transaction stand, and
// touches.

type shellKind uint8

const (
	shellSubmit    shellKind = iota + 1 // sub
	shellBarrier                        // barrier
	shellTouches                        // touches
	shellConfirmed                      // read, ok
)

type shellMsg struct {
	kind    shellKind
	epoch   uint32
	sub     submission
	barrier barrier
	touches []touch
	beat    uint64 // with touches: the newest heartbeat heard before
	read    uint64
	ok      bool
	follows bool // ghost: the barrier was announced over the same link
}

// submission is what a client wants of the leader.
type submission struct {
	kind   reqKind
	req    evaluate.Request
	expire bool // a close that nobody asked for
}

// barrier is where a request without a transaction stands: it is answered when
// everything up to after is applied.
type barrier struct {
	origin uint64
	after  jute.Zxid
	read   uint64 // of the core's, that must be confirmed before; 0 for none
	told   bool   // the client may be told at once that its session has expired
	moved  bool   // the connection is to be cut
}

type touch struct {
	session jute.SessionID
	timeout int32 // ms
	ageMs   int64
	at      uint64 // ghost: when that was, µs
}

// maybeLead begins to lead when the tree has all that the epoch begins with.
func (s *Sim) maybeLead(n *node) {
	st := &n.status
	if st.Role != zab.Leading || n.evaluator != nil || n.applied < jute.MakeZxid(st.Epoch, 0) {
		return
	}
	s.trace(n, "leads epoch %d", st.Epoch)
	s.stats.Leads++
	n.evaluator = evaluate.New(n.tree, s.schemes, evaluate.Options{MaxListed: s.cfg.MaxListed})
	n.tracker = session.NewTracker(int64(s.cfg.SessionMs / 10))
	n.heard = make(map[jute.SessionID]int64)
	n.since = st.Epoch
	leasesOver := int64(n.localMs() + n.core.LongestLease())
	for id, ms := range n.tree.Sessions() {
		n.tracker.Add(id, ms, leasesOver)
		n.heard[id] = int64(s.now) - n.pausedFor
	}
	n.serving = true
}

// endService closes the clients' connections: the role ends.
func (s *Sim) endService(n *node) {
	n.serving = false
	if s.cfg.Mutant != MutantTrackerOutlives {
		n.tracker = nil
	}
	n.evaluator = nil
	n.waiting, n.barriers, n.unsettled = nil, nil, make(map[uint64]zab.SID)
	for _, c := range n.conns {
		s.cutConn(n, c)
	}
	n.ended = append(n.ended, n.conns...)
	n.conns = nil
}

// submit deals with what a client of this node wants, by the node's role.
func (s *Sim) submit(n *node, sub *submission) {
	switch {
	case n.evaluator != nil:
		s.propose(n, sub)
	case n.status.Role == zab.Following:
		s.stats.Forwards++
		s.tell(n, n.status.Leader, n.status.LeaderGen, &shellMsg{kind: shellSubmit, epoch: n.status.Epoch, sub: *sub})
	}
}

// hear takes in what another node's shell says.
func (s *Sim) hear(n *node, from zab.SID, l *link, m *shellMsg) {
	switch m.kind {
	case shellSubmit:
		if n.evaluator != nil && m.epoch >= n.since && m.epoch <= n.status.Epoch {
			s.propose(n, &m.sub)
			s.heed(n)
		}
	case shellBarrier:
		side := 1 - l.side(n)
		l.heard[side] = max(l.heard[side], m.barrier.read)
		if n.status.Role == zab.Following && n.status.Leader == from {
			if m.barrier.read != 0 {
				n.unsettled[m.barrier.read] = n.id
			}
			n.barriers = append(n.barriers, m.barrier)
			s.answerBarriers(n)
		}
	case shellConfirmed:
		if side := 1 - l.side(n); m.follows && m.read > l.heard[side] {
			s.fail("L1", "server %d hears of question %d before the barrier that waits for it", n.id, m.read)
		}
		if n.status.Role == zab.Following && n.status.Leader == from {
			s.settle(n, m.read, m.ok)
		}
	case shellTouches:
		s.hearTouches(n, from, m)
	}
}

// noteHeard tells the ghost that a leader knows that a session was alive at a
// time. The time that the leader was paused before does not count.
func (s *Sim) noteHeard(n *node, id jute.SessionID, at uint64) {
	n.heard[id] = max(n.heard[id], int64(at)-n.pausedFor)
}

// propose makes a transaction of a submission, or puts it where it belongs.
func (s *Sim) propose(n *node, sub *submission) {
	if len(n.waiting) > 0 {
		n.waiting = append(n.waiting, *sub)
		return
	}
	if !s.proposeOne(n, sub) {
		n.waiting = append(n.waiting, *sub)
	}
}

// resumeHeld goes on with what waited for the epoch's renewal.
func (s *Sim) resumeHeld(n *node) {
	if len(n.waiting) == 0 || n.evaluator == nil {
		return
	}
	if !s.ready(n) {
		return
	}
	held := n.waiting
	n.waiting = nil
	for i := range held {
		s.propose(n, &held[i])
	}
	n.again = true
}

// proposeOne reports whether it could.
func (s *Sim) proposeOne(n *node, sub *submission) bool {
	req := &sub.req
	switch sub.kind {
	case reqSync:
		if !s.hearOf(n, req) {
			s.place(n, barrier{origin: req.Origin, after: n.core.LastZxid(), moved: true})
			return true
		}
		s.confirm(n, barrier{origin: req.Origin, after: n.core.LastZxid()})
		return true
	case reqResume:
		return s.resume(n, sub)
	}
	if !s.ready(n) {
		return false
	}
	if sub.expire {
		s.checkExpiry(n, req.Session)
	} else if req.Origin != 0 && sub.kind != reqCreateSession {
		s.hearOf(n, req)
		if err := n.tracker.CheckOwner(req.Session, req.Origin); err == jute.ErrSessionMoved {
			req.Refused = jute.ErrSessionMoved
		} else if req.Op == jute.OpCloseSession {
			n.tracker.MarkClosing(req.Session)
		}
	}
	s.evaluate(n, sub)
	return true
}

// ready reports whether a leader can propose now.
func (s *Sim) ready(n *node) bool {
	_, ok := n.core.NextZxid()
	n.evaluator.Applied(n.applied)
	return ok && n.evaluator.Ready()
}

// evaluate proposes what a submission becomes.
func (s *Sim) evaluate(n *node, sub *submission) {
	txn := &s.making
	*txn = datatree.Txn{Ops: txn.Ops[:0]}
	zxid, _ := n.core.NextZxid()
	if !n.evaluator.Evaluate(&sub.req, zxid, int64(s.now/1000), txn) {
		panic(fmt.Sprintf("sim: a client sent a %v that can't be decoded", sub.req.Op))
	}
	if !n.evaluator.Ready() {
		s.stats.Unlisted++
	}
	s.spoil(sub, txn)
	n.core.Propose(zxid, txn.Append(make([]byte, 0, 128)))
	s.stats.Proposals++
	if s.cfg.Mutant == MutantReplyEarly {
		s.replyEarly(n, txn)
	}
	n.again = true
}

// spoil is what mutants of the evaluator do to a transaction.
func (s *Sim) spoil(sub *submission, txn *datatree.Txn) {
	switch s.cfg.Mutant {
	case MutantDoubleClose:
		if sub.req.Op == jute.OpCloseSession && len(txn.Ops) == 0 {
			txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpCloseSession, Result: jute.OpCloseSession})
		}
	case MutantNoSessionCheck:
		if txn.Err == jute.ErrSessionExpired && sub.req.Op == jute.OpCreate {
			txn.Err = 0
			txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpCreate, Result: jute.OpCreate, Path: "/stray",
				ACL: openACL, Owner: jute.OwnerSession(sub.req.Session), Cversion: 1})
		}
	}
}

// resume makes the new connection the session's owner, and reports whether it could. The
// client is told behind a barrier whether the session lives, or with the transaction that
// sets another timeout.
func (s *Sim) resume(n *node, sub *submission) bool {
	req := &sub.req
	now := int64(n.localMs())
	ms, open := n.evaluator.Timeout(req.Session)
	renegotiated := open && ms != req.TimeoutMs && n.tracker.Get(req.Session) != nil && !n.tracker.IsClosing(req.Session)
	if s.cfg.Mutant == MutantTimeoutForgotten && renegotiated {
		n.tracker.Renew(req.Session, req.TimeoutMs, now)
		ms, renegotiated = req.TimeoutMs, false
	}
	if renegotiated {
		if !s.ready(n) {
			return false
		}
		ms = req.TimeoutMs
	}
	if open {
		if _, ok := n.tracker.Resume(req.Session, ms, req.Origin, now); ok {
			s.noteHeard(n, req.Session, s.now)
		}
	}
	if renegotiated {
		s.stats.Renegotiated++
		req.Resumes = true
		s.evaluate(n, sub)
		return true
	}
	b := barrier{origin: req.Origin, after: n.core.LastZxid()}
	if s.cfg.Mutant == MutantExpiredEarly && n.tracker.IsClosing(req.Session) {
		b.told = true
	}
	if n.localMs() >= n.core.AnswersUntil() && s.cfg.Mutant != MutantNoLease {
		s.confirm(n, b)
		return true
	}
	s.place(n, b)
	return true
}

// confirm has a quorum confirm that a node leads. The barrier takes effect when that
// is done.
func (s *Sim) confirm(n *node, b barrier) {
	n.lastRead++
	b.read = n.lastRead
	n.unsettled[b.read] = zab.SID(b.origin >> 56)
	n.core.ReadIndex(n.lastRead)
	n.again = true
	if s.cfg.Mutant == MutantSyncOnlyIndex {
		b.after = 0
	}
	s.place(n, b)
}

// place puts a barrier where its client is.
func (s *Sim) place(n *node, b barrier) {
	if at := zab.SID(b.origin >> 56); at != n.id {
		s.tell(n, at, 0, &shellMsg{kind: shellBarrier, barrier: b})
		return
	}
	n.barriers = append(n.barriers, b)
	s.answerBarriers(n)
}

// confirmed takes in the answer to a question of ReadIndex.
func (s *Sim) confirmed(n *node, r zab.ReadResult) {
	at, ok := n.unsettled[r.ID]
	if !ok {
		return
	}
	if at != n.id {
		delete(n.unsettled, r.ID)
		s.tell(n, at, 0, &shellMsg{kind: shellConfirmed, read: r.ID, ok: r.OK})
		return
	}
	s.settle(n, r.ID, r.OK)
}

// settle lets the barrier take effect that waited for a question, or ends the
// connection that waits for it: its client asks elsewhere.
func (s *Sim) settle(n *node, read uint64, ok bool) {
	if n.unsettled[read] != n.id {
		return
	}
	delete(n.unsettled, read)
	for i := range n.barriers {
		if b := &n.barriers[i]; b.read == read {
			b.moved = b.moved || !ok
			s.stats.Syncs++
		}
	}
	s.answerBarriers(n)
}

// expire closes the sessions that were not heard of for too long. While requests wait
// to be proposed there is no telling: they are signs of life, and stand before the closes.
func (s *Sim) expire(n *node) {
	if n.tracker == nil || n.evaluator == nil && s.cfg.Mutant != MutantTrackerOutlives {
		return
	}
	if len(n.waiting) > 0 {
		return
	}
	for _, id := range n.tracker.Expire(int64(n.localMs()), s.holds(n)) {
		sub := &submission{kind: reqWrite, expire: true, req: evaluate.Request{Op: jute.OpCloseSession, Session: id}}
		s.submit(n, sub)
	}
}

// checkExpiry checks that a session that is to be closed has been silent for its
// timeout, as far as this leader could know: S3.
func (s *Sim) checkExpiry(n *node, id jute.SessionID) {
	heard, ok := n.heard[id]
	if !ok {
		s.fail("S3", "server %d lets session %v expire, of which it knows nothing", n.id, id)
	}
	silent := int64(s.now) - n.pausedFor - heard
	if ms, ok := n.evaluator.Timeout(id); ok && silent < int64(ms)*1000*85/100 {
		s.fail("S3", "server %d lets session %v expire after %d ms of %d", n.id, id, silent/1000, ms)
	}
}
