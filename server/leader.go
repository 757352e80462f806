package server

import (
	"errors"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/zab"
)

// What the leader evaluates in one turn of the peer loop is bounded, and so is what it
// evaluates under one hold of the tree's read lock: heartbeats, the applier and readers
// wait no longer than that.
const (
	evaluateBatch = 64   // requests under one hold
	evaluateTurn  = 1024 // requests in a turn
	// evaluateWork counts requests, the operations that they become and every 256 bytes of
	// these, in a turn. The last request may go beyond, as far as jute.maxbuffer allows.
	evaluateWork = 4096
)

// leading is what a replica has only while it leads.
type leading struct {
	evaluator *evaluate.Evaluator
	since     uint32 // epoch in which it began
	proposals proposals
	// waiting is not evaluated yet; what other servers sent before this one was ready
	// to lead, too.
	waiting fifo[submission]
	bytes   int64           // of waiting
	reports []digestReports // oldest first
	// unknown want to resume sessions that this server does not know. It may be
	// about to: another server can have applied, and told its client, what is only
	// proposed here.
	unknown fifo[unknownResume]
}

type unknownResume struct {
	after jute.Zxid // decided when this is applied
	sub   submission
}

// proposals are the transactions proposed here and not committed, oldest first: the
// applier need not decode what this leader has encoded. They are kept up to a number of
// bytes; what is beyond is decoded again.
type proposals struct {
	kept  fifo[proposal]
	bytes int64 // of kept
}

type proposal struct {
	zxid jute.Zxid
	txn  *datatree.Txn
	size int64
}

// keep keeps a transaction of size bytes, if that does not exceed the limit.
func (p *proposals) keep(txn *datatree.Txn, size, limit int64) {
	if p.bytes+size > limit {
		recycleTxn(txn)
		return
	}
	p.bytes += size
	p.kept.push(proposal{txn.Zxid, txn, size})
}

// pop removes the oldest one.
func (p *proposals) pop() *datatree.Txn {
	txn := p.kept.front().txn
	p.bytes -= p.kept.front().size
	p.kept.pop(1)
	return txn
}

// passed drops what was proposed up to zxid: it is committed, and comes from the log.
func (l *leading) passed(zxid jute.Zxid) {
	for l.proposals.kept.len() > 0 && l.proposals.kept.front().zxid <= zxid {
		recycleTxn(l.proposals.pop())
	}
}

// txnOf returns the transaction that was proposed here under zxid, or nil if it is not
// kept. Zxids are asked for in rising order.
func (l *leading) txnOf(zxid jute.Zxid) *datatree.Txn {
	l.passed(zxid - 1)
	if l.proposals.kept.len() == 0 || l.proposals.kept.front().zxid != zxid {
		return nil
	}
	return l.proposals.pop()
}

// end forgets everything: this server leads no more.
func (l *leading) end() { *l = leading{} }

// lead begins to lead. The tree has everything up to the marker. Nobody knows
// who was heard of last, so all sessions get their full timeout, from when the
// leases of earlier leaders have ended.
func (r *replica) lead(now zab.Status) {
	r.leading = leading{
		since:   now.Epoch,
		waiting: r.leading.waiting,
		bytes:   r.leading.bytes,
		evaluator: evaluate.New(r.state.tree, r.schemes, evaluate.Options{
			ExtendedTypes:   r.cfg.ExtendedTypes,
			EnforceQuota:    r.cfg.EnforceQuota,
			ReconfigEnabled: r.cfg.ReconfigEnabled,
		}),
	}
	leasesEnd := millis(r.now())
	if r.ensemble() {
		leasesEnd += int64(r.core.LongestLease())
	}
	r.tracker.Reset(leasesEnd)
	r.metrics.proposalSizes.reset()
	r.metrics.leadsFrom.Store(int64(r.now()))
	if r.cfg.LeaderServes || !r.ensemble() {
		r.beginService()
	}
}

// propose takes requests in. They are evaluated and proposed in their turn: see
// proposeWaiting. If too much waits, clients' requests are refused: their connections end.
func (r *replica) propose(batch []submission) {
	for i := range batch {
		sub := &batch[i]
		if size := sub.size(); sub.req.Origin == 0 || r.leading.bytes+size <= r.limits.waiting {
			r.leading.waiting.push(*sub)
			r.leading.bytes += size
		} else {
			r.stand(barrier{origin: sub.req.Origin, code: jute.ErrSessionMoved})
		}
	}
}

// proposeWaiting evaluates and proposes what waits, as much as a turn of the loop allows
// and if the leader can propose now. If something is left that it can propose, the loop
// comes back; else whatever holds it up does.
func (r *replica) proposeWaiting() {
	r.decideUnknown()
	requests, work := 0, 0
	for r.canPropose() {
		if requests >= evaluateTurn || work >= evaluateWork {
			notify(r.again)
			break
		}
		n, w := r.evaluate(r.leading.waiting.all(), evaluateWork-work)
		requests, work = requests+n, work+w
		for i := range n {
			r.leading.bytes -= r.leading.waiting.all()[i].size()
		}
		r.leading.waiting.pop(n)
		r.dispatch() // the log can begin with these
	}
	if work > 0 {
		r.metrics.turnWork.observe(time.Duration(work), 1)
	}
	r.awaitApplier()
}

// canPropose reports whether something waits and may be proposed now: not while the epoch
// is being renewed, while a close has to be applied first, or while the log has so much
// to write that it could hold up the loop.
func (r *replica) canPropose() bool {
	if r.leading.waiting.len() == 0 || r.status.Role != zab.Leading || r.logging >= r.limits.log {
		return false
	}
	_, ok := r.core.NextZxid()
	if ok && !r.leading.evaluator.Ready() {
		r.leading.evaluator.Applied(r.lastApplied())
	}
	return ok && r.leading.evaluator.Ready()
}

// awaitApplier has the applier wake the loop if that waits for it.
func (r *replica) awaitApplier() {
	role, l := r.status.Role, &r.leading
	awaited := role == zab.SyncingLeader || role == zab.SyncingFollower || l.unknown.len() > 0 ||
		l.evaluator != nil && !l.evaluator.Ready()
	r.awaited.Store(awaited)
	if awaited && r.told < r.lastApplied() {
		notify(r.moved) // it moved before
	}
}

// decideUnknown decides about the resumptions of sessions that were not known, if it is
// known now whether there are such sessions.
func (r *replica) decideUnknown() {
	if r.leading.unknown.len() == 0 {
		return
	}
	decided := false
	r.state.mu.RLock()
	for list := &r.leading.unknown; list.len() > 0 && list.front().after <= r.lastApplied(); list.pop(1) {
		if !r.resume(&list.front().sub.req, r.now()) {
			break
		}
		decided = true
	}
	r.state.mu.RUnlock()
	if decided {
		r.dispatch()
	}
}

// evaluate proposes the first requests of a batch, as many as may be evaluated under one
// hold of the tree's lock, and returns how many and how much work that was.
func (r *replica) evaluate(batch []submission, maxWork int) (n, work int) {
	batch = batch[:min(len(batch), evaluateBatch)]
	now := r.now()
	nowMs := time.Now().UnixMilli()
	payload := newArena(len(batch))
	r.state.mu.RLock()
	defer r.state.mu.RUnlock()
	r.leading.evaluator.Applied(r.state.tree.LastZxid())
	for n < len(batch) && work < maxWork && r.leading.evaluator.Ready() {
		w, ok := r.one(&batch[n], now, nowMs, payload)
		if !ok {
			break
		}
		n++
		work += 1 + w
	}
	return n, work
}

// one evaluates and proposes one submission, or refuses it. It reports whether it could, and how much work its
// transaction was. The tree is locked for reading.
func (r *replica) one(sub *submission, now time.Duration, nowMs int64, payload *arena) (work int, ok bool) {
	req := &sub.req
	if req.Origin != 0 && req.Origin <= r.barred && serverOf(req.Origin) == r.id {
		r.closeOrigin(req.Origin)
		return 0, true
	}
	s, lives := r.hearOf(req, now)
	if code := r.refusal(sub, now); code != 0 {
		r.stand(barrier{origin: req.Origin, code: code, read: r.sure(req.Origin)})
		return 0, true
	}
	switch sub.kind {
	case submitBarrier:
		b := barrier{origin: req.Origin, read: r.confirm(req.Origin)}
		if !lives {
			b.code = jute.ErrSessionMoved
		}
		r.stand(b)
		return 0, true
	case submitResume:
		if last := r.core.LastZxid(); r.tracker.Get(req.Session) == nil && r.lastApplied() < last {
			r.leading.unknown.push(unknownResume{last, *sub})
			return 0, true
		}
		return 1, r.resume(req, now)
	}
	r.checkOwner(req, s)
	return r.proposeOne(req, nowMs, payload)
}

// proposeOne evaluates a request and proposes the transaction that it becomes. It reports
// whether it could, and how much work that was. The tree is locked for reading.
func (r *replica) proposeOne(req *evaluate.Request, nowMs int64, payload *arena) (work int, ok bool) {
	zxid, ok := r.core.NextZxid()
	if !ok {
		return 0, false
	}
	txn := newTxn()
	if !r.leading.evaluator.Evaluate(req, zxid, nowMs, txn) {
		recycleTxn(txn)
		r.stand(barrier{origin: req.Origin, code: jute.ErrMarshalling, read: r.sure(req.Origin)})
		return 0, true
	}
	if txn.Err != 0 && r.refusesWrites() { // it must not cost room
		r.stand(barrier{origin: req.Origin, code: txn.Err, read: r.sure(req.Origin)})
		return 0, true
	}
	data := payload.encode(txn)
	work = len(txn.Ops) + len(data)/256
	if len(txn.Ops) == 1 {
		work += len(txn.Ops[0].Paths)
	}
	r.core.Propose(txn.Zxid, data)
	r.metrics.proposals.Add(1)
	r.metrics.proposalSizes.observe(len(data))
	r.leading.proposals.keep(txn, int64(len(data)), r.limits.proposals)
	return work, true
}

// confirm has a quorum confirm that this server leads, and returns the number of
// that for the barrier which waits for it.
func (r *replica) confirm(origin uint64) uint64 {
	r.lastRead++
	r.held[r.lastRead] = heldRead{at: serverOf(origin)}
	r.core.ReadIndex(r.lastRead)
	return r.lastRead
}

// stand puts a barrier behind everything proposed so far, here or at the server
// that waits for it.
func (r *replica) stand(b barrier) {
	b.after = r.core.LastZxid()
	to := serverOf(b.origin)
	if to == r.id {
		r.barriers.push(b)
		return
	}
	a := r.answer(to)
	if len(a.barriers) == 0 {
		a.barriers = beginPeerFrame(a.barriers, r.status.Epoch)
	}
	a.barriers = appendBarrier(a.barriers, &b)
}

// closeOrigin ends a connection of this server.
func (r *replica) closeOrigin(origin uint64) {
	if c := r.conns.get(origin); c != nil {
		c.kill()
	}
}

// refusal returns the code by which a write is turned away before it is looked at
// any closer, without a trace in the log, or 0.
func (r *replica) refusal(sub *submission, now time.Duration) jute.Code {
	if sub.kind != submitWrite {
		return 0
	}
	limit := r.cfg.ThrottledOpWaitTime
	if limit > 0 && now-sub.received > limit && sub.req.Op != jute.OpCloseSession && sub.req.Op != jute.OpCreateSession {
		r.metrics.throttledOps.Add(1)
		return jute.ErrThrottledOp
	}
	return r.refusedByDisk(&sub.req)
}

// checkOwner refuses what a client sent before it moved to another connection.
// Whether the session is open is the evaluator's question.
func (r *replica) checkOwner(req *evaluate.Request, s *session.Session) {
	if s == nil || req.Op == jute.OpCreateSession {
		return
	}
	if err := s.CheckOwner(req.Origin); errors.Is(err, jute.ErrSessionMoved) {
		req.Refused = jute.ErrSessionMoved
		return
	}
	if req.Op == jute.OpCloseSession {
		r.tracker.MarkClosing(req.Session) // so that it does not expire as well
	}
}

// hearOf touches the session of a client's request. lives is false if it is too
// late for that. A session that is not known here is about to be, or its close
// stands before the request.
func (r *replica) hearOf(req *evaluate.Request, now time.Duration) (s *session.Session, lives bool) {
	if req.Origin == 0 {
		return nil, true
	}
	s = r.tracker.Get(req.Session)
	return s, s == nil || s.Touch(millis(now), s.TimeoutMs())
}

// sure returns what a barrier has to wait for that this server's word be that of
// the ensemble: nothing while it has a lease.
func (r *replica) sure(origin uint64) uint64 {
	if millis(r.now()) < r.answersUntil.Load() {
		return 0
	}
	return r.confirm(origin)
}

// resume makes the new connection the session's owner: what the old one has
// still under way is refused from here on, and wherever the old one is, it ends. It
// reports whether it could.
//
// The client is answered with the timeout that the tree has then. If it has negotiated
// another one, the answer waits for a transaction that sets it: so it holds on every
// leader and after every restart. While the disk is full there is no such transaction,
// and the session continues with its old timeout. Otherwise the answer waits for a
// barrier, when it is settled whether the session lives: one that is being closed is
// called expired only once the close is committed.
func (r *replica) resume(req *evaluate.Request, now time.Duration) bool {
	ms, open := r.leading.evaluator.Timeout(req.Session)
	renegotiated := open && ms != req.TimeoutMs && !r.refusesWrites() && r.tracker.Get(req.Session) != nil && !r.tracker.IsClosing(req.Session)
	if renegotiated {
		if _, ok := r.core.NextZxid(); !ok || !r.leading.evaluator.Ready() {
			return false
		}
		ms = req.TimeoutMs
	}
	if open {
		if old, ok := r.tracker.Resume(req.Session, ms, req.Origin, millis(now)); ok && old != 0 && old != req.Origin && serverOf(old) != serverOf(req.Origin) {
			r.stand(barrier{origin: old, code: jute.ErrSessionMoved})
		}
	}
	if renegotiated {
		req.Resumes = true
		r.proposeOne(req, time.Now().UnixMilli(), newArena(1))
		return true
	}
	r.stand(barrier{origin: req.Origin, session: req.Session, read: r.sure(req.Origin)})
	return true
}

// txns are the transactions between the evaluator and the applier of a leader.
var txns = sync.Pool{New: func() any { return new(datatree.Txn) }}

func newTxn() *datatree.Txn { return txns.Get().(*datatree.Txn) }

// recycleTxn gives the memory of a transaction that is applied, or passed, to a later
// one.
func recycleTxn(txn *datatree.Txn) {
	clear(txn.Ops)
	*txn = datatree.Txn{Ops: txn.Ops[:0]}
	txns.Put(txn)
}

// arena is where the encoded transactions of one batch stand side by side. It
// is left to the garbage collector with the last of them.
type arena struct {
	buf  []byte
	left int // requests still to come, to guess the size
}

const arenaChunk = 256 << 10

func newArena(n int) *arena { return &arena{left: n} }

func (a *arena) encode(txn *datatree.Txn) []byte {
	size := txn.MaxSize()
	if cap(a.buf)-len(a.buf) < size {
		a.buf = make([]byte, 0, max(size, min(size*a.left, arenaChunk)))
	}
	a.left--
	n := len(a.buf)
	a.buf = txn.Append(a.buf)
	return a.buf[n:len(a.buf):len(a.buf)]
}
