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

// evaluateBatch is how many requests are evaluated under one hold of the
// tree's read lock, so that the applier never waits long for it.
const evaluateBatch = 64

// leading is what a replica has only while it leads.
type leading struct {
	evaluator *evaluate.Evaluator
	since     uint32 // epoch in which it began
	// proposals are the transactions proposed here and not committed, oldest
	// first. Their decoded form saves decoding them once they are.
	proposals []proposal
	// waiting cannot be proposed at the moment, since the epoch is being renewed.
	waiting []submission
	reports []digestReports // oldest first
	// unknown want to resume sessions that this server does not know. It may be
	// about to: another server can have applied, and told its client, what is only
	// proposed here.
	unknown []unknownResume
	// early came before this server was ready to lead.
	early []peerEvent
}

type unknownResume struct {
	after jute.Zxid // decided when this is applied
	sub   submission
}

type proposal struct {
	zxid jute.Zxid
	txn  *datatree.Txn
}

// txnOf returns the transaction that was proposed here under zxid, or nil. Zxids
// are asked for in rising order.
func (l *leading) txnOf(zxid jute.Zxid) *datatree.Txn {
	if len(l.proposals) == 0 || l.proposals[0].zxid != zxid {
		return nil
	}
	txn := l.proposals[0].txn
	l.proposals = dropFront(l.proposals, 1)
	return txn
}

// end forgets everything but what was early: this server leads no more.
func (l *leading) end() { *l = leading{} }

// lead begins to lead. The tree has everything up to the marker. Nobody knows
// who was heard of last, so all sessions get their full timeout, from when the
// leases of earlier leaders have ended.
func (r *replica) lead(now zab.Status) {
	early := r.leading.early
	r.leading = leading{
		since: now.Epoch,
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
	for i := range early {
		r.handle(&early[i])
	}
}

// propose evaluates a batch and proposes the outcome.
func (r *replica) propose(batch []submission) {
	if len(r.leading.waiting) > 0 {
		r.leading.waiting = append(r.leading.waiting, batch...)
		return
	}
	now := r.now()
	nowMs := time.Now().UnixMilli()
	payload := newArena(len(batch))
	for rest := batch; len(rest) > 0; {
		n := min(len(rest), evaluateBatch)
		r.state.mu.RLock()
		r.leading.evaluator.Applied(r.state.tree.LastZxid())
		done := 0
		for done < n && r.one(&rest[done], now, nowMs, payload) {
			done++
		}
		r.state.mu.RUnlock()
		rest = rest[done:]
		if done < n {
			r.leading.waiting = append(r.leading.waiting, rest...)
			return
		}
		if len(rest) > 0 {
			r.dispatch() // the log can begin with these
		}
	}
}

// resumeHeld goes on with what waited for the applier, or for the epoch's renewal.
func (r *replica) resumeHeld() {
	n := 0
	for n < len(r.leading.unknown) && r.leading.unknown[n].after <= r.lastApplied() {
		r.resume(&r.leading.unknown[n].sub.req, r.now())
		n++
	}
	if n > 0 {
		r.leading.unknown = dropFront(r.leading.unknown, n)
		r.awaited.Store(len(r.leading.unknown) > 0)
		r.dispatch()
	}
	if len(r.leading.waiting) == 0 {
		return
	}
	if _, ok := r.core.NextZxid(); ok {
		batch := r.leading.waiting
		r.leading.waiting = nil
		r.propose(batch)
		r.dispatch()
	}
}

// one takes one submission in, and reports whether it could. The tree is locked
// for reading.
func (r *replica) one(sub *submission, now time.Duration, nowMs int64, payload *arena) bool {
	req := &sub.req
	if req.Origin != 0 && req.Origin <= r.barred && serverOf(req.Origin) == r.id {
		r.closeOrigin(req.Origin)
		return true
	}
	s, lives := r.hearOf(req, now)
	if code := r.refusal(sub, now); code != 0 {
		r.stand(barrier{origin: req.Origin, code: code, read: r.sure(req.Origin)})
		return true
	}
	switch sub.kind {
	case submitBarrier:
		b := barrier{origin: req.Origin, read: r.confirm(req.Origin)}
		if !lives {
			b.code = jute.ErrSessionMoved
		}
		r.stand(b)
		return true
	case submitResume:
		if last := r.core.LastZxid(); r.tracker.Get(req.Session) == nil && r.lastApplied() < last {
			r.leading.unknown = append(r.leading.unknown, unknownResume{last, *sub})
			r.awaited.Store(true)
			return true
		}
		r.resume(req, now)
		return true
	}
	zxid, ok := r.core.NextZxid()
	if !ok {
		return false
	}
	r.checkOwner(req, s)
	txn := newTxn()
	r.leading.evaluator.Evaluate(req, zxid, nowMs, txn)
	data := payload.encode(txn)
	r.core.Propose(txn.Zxid, data)
	r.metrics.proposals.Add(1)
	r.metrics.proposalSizes.observe(len(data))
	r.leading.proposals = append(r.leading.proposals, proposal{txn.Zxid, txn})
	return true
}

// confirm has a quorum confirm that this server leads, and returns the number of
// that for the barrier which waits for it.
func (r *replica) confirm(origin uint64) uint64 {
	r.lastRead++
	r.held[r.lastRead] = serverOf(origin)
	r.core.ReadIndex(r.lastRead)
	return r.lastRead
}

// stand puts a barrier behind everything proposed so far, here or at the server
// that waits for it.
func (r *replica) stand(b barrier) {
	b.after = r.core.LastZxid()
	to := serverOf(b.origin)
	if to == r.id {
		r.barriers = append(r.barriers, b)
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
// still under way is refused from here on, and wherever the old one is, it ends.
// The client is answered behind a barrier, when it is settled whether the session
// lives: one that is being closed is called expired only once the close is
// committed.
func (r *replica) resume(req *evaluate.Request, now time.Duration) {
	if r.tracker.Renew(req.Session, req.TimeoutMs, millis(now)) {
		if old := r.tracker.Get(req.Session).Owner(); old != 0 && old != req.Origin && serverOf(old) != serverOf(req.Origin) {
			r.stand(barrier{origin: old, code: jute.ErrSessionMoved})
		}
		r.tracker.SetOwner(req.Session, req.Origin)
	}
	r.stand(barrier{origin: req.Origin, session: req.Session, read: r.sure(req.Origin)})
}

// txns are the transactions between the evaluator and the applier of a leader.
var txns = sync.Pool{New: func() any { return new(datatree.Txn) }}

func newTxn() *datatree.Txn { return txns.Get().(*datatree.Txn) }

// recycleTxn gives an applied transaction's memory to a later one.
func recycleTxn(o *order) {
	if o.txn == nil {
		return
	}
	putTxn(o.txn)
	o.txn = nil
}

// putTxn gives a transaction back that newTxn returned.
func putTxn(txn *datatree.Txn) {
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

// sizeHint is about how long the encoding of txn is, most often a little more.
func sizeHint(txn *datatree.Txn) int {
	n := 64
	for i := range txn.Ops {
		op := &txn.Ops[i]
		n += len(op.Path) + len(op.Data) + 48
		for j := range op.ACL {
			n += len(op.ACL[j].ID.Scheme) + len(op.ACL[j].ID.ID) + 8
		}
	}
	return n
}

func newArena(n int) *arena { return &arena{left: n} }

func (a *arena) encode(txn *datatree.Txn) []byte {
	size := sizeHint(txn)
	if cap(a.buf)-len(a.buf) < size {
		a.buf = make([]byte, 0, max(size, min(size*a.left, arenaChunk)))
	}
	a.left--
	n := len(a.buf)
	a.buf = txn.Append(a.buf)
	return a.buf[n:len(a.buf):len(a.buf)]
}
