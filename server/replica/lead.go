package replica

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/fifo"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/zab"
)

// The work that the leader evaluates is bounded, both in one turn and under one hold of
// the tree's read lock: heartbeats, the applier and readers wait no longer than that.
const (
	EvaluateBatch = 64   // requests under one hold
	EvaluateTurn  = 1024 // requests in a turn
	// EvaluateWork counts, in a turn, requests, the operations that they become, every 256 bytes
	// of these, and what else their evaluation looked at, also for refused ones. The last request may
	// exceed it, up to what jute.maxbuffer and the limits of package evaluate allow.
	EvaluateWork = 4096
)

// leading is the state that a replica has only while it leads.
type leading struct {
	evaluator *evaluate.Evaluator
	since     uint32 // epoch in which the leadership began
	proposals txnCache
	// waiting requests are not evaluated yet; they include those that other servers sent
	// before this one was ready to lead. They have their turns by subject, and those of a subject by
	// their origins: however many connections a subject has, and at however many servers, and however many requests they have
	// under way, it delays the others by Limits.Turn, times its weight.
	// Lists are set aside while pace has their first request wait.
	waiting fifo.Turns[limits.Subject, Submission]
	bytes   int64 // of waiting
	pace    pace
	// services are the numbers of the servers' present services. Waiting requests of earlier ones
	// have no effect.
	services [zab.Zero + 1]uint64
	// refused are the connections that end because one of their requests was refused.
	refused map[uint64]bool
	reports []digestReports // oldest first
	// unknown are requests to resume sessions that this server does not know. It may soon
	// know them: another server can have applied, and reported to its client, a session
	// whose creation is only proposed here.
	unknown fifo.List[unknownResume]
	// requests and work count what was evaluated in this turn. more means that the turn
	// ended with work left.
	requests, work int
	more           bool
	// broken means that the evaluator can't be used any more: see broken.go.
	broken bool
	// lookAt is when autopilot looks at the members again, in ms. warned means that it has said
	// that it leaves them alone.
	lookAt int64
	warned bool
}

type unknownResume struct {
	after jute.Zxid // decided when this is applied
	sub   Submission
}

// txnCache are the transactions proposed here and not committed, oldest first, so that
// the applier need not decode what this leader has encoded. They are kept up to a number
// of bytes; others are decoded again.
type txnCache struct {
	kept  fifo.List[cachedTxn]
	bytes int64 // of kept
}

type cachedTxn struct {
	zxid jute.Zxid
	txn  *datatree.Txn
	size int64
}

// keep keeps a transaction of size bytes, if that does not exceed the limit.
func (p *txnCache) keep(txn *datatree.Txn, size, limit int64) {
	if p.bytes+size > limit {
		RecycleTxn(txn)
		return
	}
	p.bytes += size
	p.kept.Push(cachedTxn{txn.Zxid, txn, size})
}

// pop removes the oldest proposal.
func (p *txnCache) pop() *datatree.Txn {
	txn := p.kept.Front().txn
	p.bytes -= p.kept.Front().size
	p.kept.Pop(1)
	return txn
}

// dropCommitted drops the proposals up to zxid: they are committed, and come from the log.
func (l *leading) dropCommitted(zxid jute.Zxid) {
	if proposalsKept.Planted() {
		return
	}
	for l.proposals.kept.Len() > 0 && l.proposals.kept.Front().zxid <= zxid {
		RecycleTxn(l.proposals.pop())
	}
}

// txnOf returns the transaction that was proposed here under zxid, or nil if it is not
// kept. Zxids must be passed in rising order.
func (l *leading) txnOf(zxid jute.Zxid) *datatree.Txn {
	if !proposalsKept.Planted() {
		l.dropCommitted(zxid - 1)
	}
	if l.proposals.kept.Len() == 0 || l.proposals.kept.Front().zxid != zxid {
		return nil
	}
	return l.proposals.pop()
}

// reset drops all of it: this server no longer leads.
func (l *leading) reset(turn int) {
	*l = leading{waiting: fifo.Turns[limits.Subject, Submission]{Quantum: turn}}
}

// lead starts leading. The tree has everything up to the marker. Nobody knows which
// clients were heard of last, so all sessions get their full timeout, starting at the end
// of the leases of earlier leaders.
func (r *Replica) lead(now zab.Status) {
	r.updateFormat()
	tree := r.o.State.RLock()
	defer r.o.State.RUnlock()
	r.leading = leading{
		since:    now.Epoch,
		waiting:  r.leading.waiting,
		bytes:    r.leading.bytes,
		services: r.leading.services,
		refused:  r.leading.refused,
		pace:     newPace(r.o.Limits.Closings, r.o.Limits.Short),
	}
	r.newEvaluator(tree)
	leasesEnd := r.now()
	if r.o.Ensemble {
		leasesEnd += zab.MaxLease
	}
	if ownLeaseWaited.Planted() {
		leasesEnd = r.now() + int64(r.Core.LongestLease())
	}
	owner := tree.SessionOwner
	if ownersForgotten.Planted() {
		owner = nil
	}
	r.o.Tracker.Reset(leasesEnd, owner)
}

// Turn begins a turn: it resets the limits of Propose.
func (r *Replica) Turn() { r.leading.requests, r.leading.work, r.leading.more = 0, 0, false }

// Propose evaluates and proposes waiting requests, as many as may be evaluated under one
// hold of the tree's lock. It reports whether there may be output to take, so that the log
// can start on it. A turn ends when it returns false: also if the first request has to wait.
func (r *Replica) Propose() bool {
	if r.leading.broken && !r.renewEvaluator() {
		return false
	}
	if r.decideUnknown() {
		return true
	}
	l := &r.leading
	if !r.canPropose() {
		return false
	}
	most := cmp.Or(r.o.Limits.Work, EvaluateWork)
	if turnUnbounded.Planted() {
		most = math.MaxInt
	}
	if l.requests >= EvaluateTurn || l.work >= most {
		l.more = true
		return false
	}
	n, w := r.evaluate(most - l.work)
	l.requests, l.work = l.requests+n, l.work+w
	evaluated := n > 0
	return evaluated || proposesNothing.Planted()
}

// Work returns the amount of work in the turn, and whether the turn ended with work left
// that could have been done.
func (r *Replica) Work() (work int, more bool) { return r.leading.work, r.leading.more }

// canPropose reports whether requests wait and may be proposed now. They may not while
// the epoch is being renewed, while a close has to be applied first, or while the log has
// Limits.Log to write, which could hold up the loop.
func (r *Replica) canPropose() bool {
	if r.leading.waiting.Len() == 0 || r.status.Role != zab.Leading || r.logging >= r.o.Limits.Log {
		return false
	}
	_, ok := r.Core.NextZxid()
	if ok && !r.leading.evaluator.Ready() {
		r.leading.evaluator.Applied(r.o.State.Applied())
	}
	return ok && r.leading.evaluator.Ready()
}

// AwaitsApplied reports whether this replica waits for more applied entries than it knows
// of, and whether there are more.
func (r *Replica) AwaitsApplied() (awaits, more bool) {
	role, l := r.status.Role, &r.leading
	awaits = role == zab.SyncingLeader || role == zab.SyncingFollower || l.unknown.Len() > 0 ||
		l.pace.closings.aside || l.broken || l.evaluator != nil && !l.evaluator.Ready()
	return awaits, awaits && r.reportedApplied < r.o.State.Applied()
}

// decideUnknown decides the resumptions of unknown sessions, if it is now known whether
// these sessions exist. It reports whether it decided any.
func (r *Replica) decideUnknown() (decided bool) {
	list := &r.leading.unknown
	if list.Len() == 0 {
		return false
	}
	r.o.State.RLock()
	defer r.o.State.RUnlock()
	for ; list.Len() > 0 && list.Front().after <= r.o.State.Applied(); list.Pop(1) {
		sub := &list.Front().sub
		if !r.ofEarlierService(sub) && !r.resume(&sub.Request) {
			break
		}
		decided = true
	}
	return decided
}

// evaluate proposes the next waiting requests, as many as may be evaluated under one hold of
// the tree's lock. It returns their number and the amount of work.
func (r *Replica) evaluate(maxWork int) (n, work int) {
	l := &r.leading
	most := min(l.waiting.Len(), EvaluateBatch)
	now, wall := r.o.Now(), r.o.Wall()
	payload := newArena(most)
	waited := waits{now: now, report: r.o.Queued}
	tree := r.o.State.RLock()
	defer r.o.State.RUnlock()
	l.evaluator.Applied(tree.LastZxid()) // of the next transaction the tree may have a part
	if l.waiting.Groups() > 1 {
		l.pace.mixedAt = now
	}
	for short := false; n < most && work < maxWork && !l.broken && l.evaluator.Ready(); {
		sub := l.waiting.Front()
		if sub == nil {
			break
		}
		if l.pace.waits(&sub.Request, now) {
			l.waiting.SetAside()
			continue
		}
		long := len(sub.Request.Body) >= longRequest
		if long && short && l.pace.inForce(now) || !long && l.pace.holds(now) {
			break // the log gets the short ones first, and no more of them than others can wait for
		}
		short = short || !long
		w, ok := r.proposeOrRefuse(sub, now, wall, payload)
		if !ok {
			break
		}
		n++
		work += 1 + w
		waited.add(sub.Received)
		l.bytes -= sub.Size()
		l.waiting.Pop()
	}
	waited.flush()
	if n > 0 && r.o.Evaluated != nil {
		r.o.Evaluated(r.o.Now()-now, int64(n))
	}
	return n, work
}

// keepPace gives turns again to requests that waited for others to be committed or applied.
func (r *Replica) keepPace() {
	l := &r.leading
	closing := l.pace.closings.underWay > 0
	closing = closing && !closingsForgotten.Planted()
	if l.pace.marks.Len() == 0 && !closing {
		return
	}
	now, applied := r.o.Now(), r.reportedApplied
	if closingsUntilCommit.Planted() {
		applied = r.collected
	}
	l.pace.committed(r.collected, now)
	l.pace.applied(applied, now)
	opened := l.pace.opened(now)
	opened = opened && !asideForgotten.Planted()
	if opened {
		l.waiting.Restore()
	}
}

// waits reports how long requests had waited at a time, those in a row that were received
// together as one.
type waits struct {
	now, received time.Duration
	n             int64
	report        func(d time.Duration, n int64) // or nil
}

func (w *waits) add(received time.Duration) {
	if received != w.received {
		w.flush()
	}
	w.received = received
	w.n++
}

func (w *waits) flush() {
	if w.n > 0 && w.report != nil {
		w.report(w.now-w.received, w.n)
	}
	w.n = 0
}

// proposeOrRefuse evaluates and proposes a submission, or refuses it. It reports whether it could,
// and the work of its transaction. The tree is locked for reading.
func (r *Replica) proposeOrRefuse(sub *Submission, now time.Duration, wall int64, payload *arena) (work int, ok bool) {
	req := &sub.Request
	if r.ofEarlierService(sub) || r.endsRefused(req.Origin) {
		return 0, true
	}
	s, lives := r.touch(req, now)
	if code := r.refusal(sub, now); code != 0 {
		r.placeBarrier(barrier{origin: req.Origin, code: code, read: r.leaseOrRead(req.Origin)})
		return 0, true
	}
	if r.refusesRetired(sub) {
		return 0, true
	}
	switch sub.Kind {
	case Barrier:
		b := barrier{origin: req.Origin, read: r.readQuorum(req.Origin)}
		if !lives {
			b.code = jute.ErrSessionMoved
		}
		r.placeBarrier(b)
		return 0, true
	case Resume:
		last := r.Core.LastZxid()
		ahead := sub.Seen > last
		ahead = ahead && !aheadResumed.Planted()
		if ahead {
			r.refuseAhead(sub, last)
			return 0, true
		}
		if r.o.Tracker.Get(req.Session) == nil && r.o.State.Applied() < last {
			r.leading.unknown.Push(unknownResume{last, *sub})
			return 0, true
		}
		return 1, r.resume(req)
	}
	if _, ok := r.Core.NextZxid(); !ok {
		return 0, false
	}
	switch {
	case req.Op == jute.OpCreateSession:
		req.Owns = r.recordsOwner(req.Session)
		req.Exact = req.Exact && r.format >= datatree.FormatExact
	case r.left(req):
		// The history need not say so: clients that give up connections because the leader has much to do would
		// give it more, with everything that they have asked for there.
		r.placeBarrier(barrier{origin: req.Origin, code: jute.ErrSessionMoved})
		return 0, true
	default:
		r.checkOwner(req, s)
	}
	if control := r.controlOf(req); control != nil {
		if done, ok := control(req); done || !ok {
			return 1, ok
		}
	}
	return r.proposeOne(req, now, wall, payload)
}

// proposeOne evaluates a request and proposes its transaction. It reports whether it
// could, and the amount of work. The tree is locked for reading.
func (r *Replica) proposeOne(req *evaluate.Request, now time.Duration, wall int64, payload *arena) (work int, ok bool) {
	zxid, ok := r.Core.NextZxid()
	if !ok {
		return 0, false
	}
	if confirmedEarly.Planted() && req.Number != 0 {
		req.Confirmed = req.Number - 1
	}
	txn := NewTxn()
	broken := r.stats.Broken
	if !r.evaluateOne(req, zxid, wall, txn) {
		RecycleTxn(txn)
		code := jute.ErrMarshalling
		switch {
		case r.stats.Broken == broken:
		case req.Op == jute.OpCreateSession:
			code = jute.ErrSessionMoved // the connection ends, and the client tries again
		default:
			code = jute.ErrSystemError
		}
		r.placeBarrier(barrier{origin: req.Origin, code: code, read: r.leaseOrRead(req.Origin)})
		return len(req.Body) / workBytes, true
	}
	looked, size := r.leading.evaluator.Cost(), len(req.Body)
	noRoom := r.leading.evaluator.OutOfRoom()
	if noRoom {
		r.stats.OutOfRoom++
		r.outOfRoom()
	}
	if noRoom || r.refusesWrites() { // a failed request must not use the disk's reserve
		if code := failure(txn); code != 0 {
			r.placeBarrier(barrier{origin: req.Origin, code: code, read: r.leaseOrRead(req.Origin)})
			return looked + size/workBytes, true
		}
	}
	if doubleClose.Planted() || noSessionCheck.Planted() {
		injectFault(req, txn)
	}
	r.leading.evaluator.Accept(txn)
	data := payload.encode(txn)
	work = len(txn.Ops) + max(len(data), size)/workBytes
	if len(txn.Ops) == 1 {
		work += len(txn.Ops[0].Paths)
	}
	r.Core.Propose(txn.Zxid, data)
	r.leading.pace.proposed(txn.Zxid, len(data), now)
	if req.Op == jute.OpCloseSession {
		r.leading.pace.closings.proposed(txn.Zxid, int64(work)*workBytes, now)
	}
	if r.o.Proposed != nil {
		r.o.Proposed(len(data))
	}
	if replyBeforeCommit.Planted() && ServerOf(req.Origin) == r.o.ID && req.Op != jute.OpCreateSession {
		r.placeBarrier(barrier{origin: req.Origin})
		r.barriers.All()[r.barriers.Len()-1].after = 0
	}
	r.leading.proposals.keep(txn, int64(len(data)), r.o.Limits.Proposals)
	return work + looked, true
}

// refusal returns the code with which a write is refused before it is evaluated, without
// a record in the log, or 0.
func (r *Replica) refusal(sub *Submission, now time.Duration) jute.Code {
	if sub.Kind != Write {
		return 0
	}
	op := sub.Request.Op
	if r.o.MaxWait > 0 && now-sub.Received > r.o.MaxWait && op != jute.OpCloseSession && op != jute.OpCreateSession {
		r.stats.Throttled++
		return jute.ErrThrottledOp
	}
	return r.refusedByDisk(&sub.Request)
}

// refusesWrites reports whether this server leads and refuses writes for lack of room.
func (r *Replica) refusesWrites() bool {
	return r.status.Role == zab.Leading && (r.fullDisk || r.o.Disk.Full())
}

// refusedByDisk returns the code with which a request is refused while there is no room
// for writes, or 0 to evaluate it. A refused write was not done; the code is one from
// which clients conclude that.
func (r *Replica) refusedByDisk(req *evaluate.Request) jute.Code {
	if !r.refusesWrites() {
		return 0
	}
	switch req.Op {
	case jute.OpCloseSession:
		return 0
	case jute.OpCreateSession:
		if r.o.Ensemble && !r.fullDisk && req.Cxid != UpgradeXid {
			return jute.ErrSessionMoved // the client tries again, and soon there is a leader with room
		}
	case jute.OpDelete, jute.OpDeleteContainer:
		if r.o.Disk.RoomForDeletes() {
			return 0
		}
	case jute.OpMulti: // deleteall of zkCli.sh and of zkcli
		if evaluate.OnlyDeletes(req.Body) && r.o.Disk.RoomForDeletes() {
			return 0
		}
	}
	return jute.ErrNotReadOnly
}

// failure returns the code with which a request has failed, also of a multi, or 0.
func failure(txn *datatree.Txn) jute.Code {
	for i := range txn.Ops {
		if op := &txn.Ops[i]; op.Kind == datatree.OpError && op.Code != 0 {
			return op.Code
		}
	}
	return txn.Err
}

// recordsOwner reports whether the history is to have the owner of a session: all servers can
// read that, or it has one already.
func (r *Replica) recordsOwner(id jute.SessionID) bool {
	if ownerUnrecorded.Planted() {
		return false
	}
	recorded := r.leading.evaluator.Owner(id) != 0
	recorded = recorded && !ownerForgotten.Planted()
	return recorded || r.format >= datatree.FormatOwner
}

// left reports whether the history says, or will say, that the client of a request has moved to another connection.
func (r *Replica) left(req *evaluate.Request) bool {
	owner := r.leading.evaluator.Owner(req.Session)
	left := req.Origin != 0 && owner != 0 && owner != req.Origin
	left = left && !ownerUnchecked.Planted()
	left = left && !leftRecorded.Planted()
	return left
}

// checkOwner refuses a request that a client sent before it moved to another connection.
// The evaluator checks whether the session is open.
func (r *Replica) checkOwner(req *evaluate.Request, s *session.Session) {
	if req.Origin == 0 {
		return
	}
	if ownerUnchecked.Planted() {
		return
	}
	moved := false
	if owner := r.leading.evaluator.Owner(req.Session); owner != 0 {
		moved = owner != req.Origin
	} else if s != nil { // not recorded: this leader alone knows the owner
		moved = errors.Is(s.CheckOwner(req.Origin), jute.ErrSessionMoved)
	}
	switch {
	case moved:
		req.Refused = jute.ErrSessionMoved
	case req.Op == jute.OpCloseSession:
		r.o.Tracker.MarkClosing(req.Session) // so that it does not expire as well
	case r.doomed(s, req.Session):
		req.Refused = jute.ErrSessionMoved
	}
}

// doomed reports whether a session has expired, and its closing waits to be evaluated. Nothing may be done
// for its client meanwhile, which could count on the session then. The client is not told either that
// it has expired, since the closing may never be committed: its connection ends, and it tries again.
func (r *Replica) doomed(s *session.Session, id jute.SessionID) bool {
	_, open := r.leading.evaluator.Timeout(id)
	closing := open && s != nil && s.Closing()
	return closing && !doomedServed.Planted()
}

// refuseAhead refuses to resume a session for a client that has seen a zxid after the last one,
// as of another ensemble or of a state that was given up. Its connection ends, and the connection
// that the session has stays.
func (r *Replica) refuseAhead(sub *Submission, last jute.Zxid) {
	req := &sub.Request
	r.event(zab.Info, ServerOf(req.Origin), fmt.Sprintf("does not resume session %v: its client has seen %v, and %v is the last", req.Session, sub.Seen, last))
	r.placeBarrier(barrier{origin: req.Origin, session: req.Session, code: jute.ErrSessionMoved})
}

// resume makes the new connection the session's owner, by a transaction. From then on the
// requests of the old connection are refused, and the server that has it ends it when it
// applies the transaction. The answer to the client waits for that, too. The transaction sets
// the timeout as well, if the client has negotiated another one, so that what the client is
// told holds on every leader and after every restart. resume reports whether it could.
//
// The answer for a session that is not open waits for a barrier, after which it is settled
// whether the session is alive: a client learns that its session has expired only once the
// close is committed. If the disk has no room, the connection ends, and the client tries again.
//
// A server of an earlier version can't read who owns a session. As long as there is one, this
// leader alone knows the owners of sessions without an owner in the history: it ends the old
// connection by a barrier, and a transaction sets no more than another timeout.
func (r *Replica) resume(req *evaluate.Request) bool {
	s, records := r.o.Tracker.Get(req.Session), r.recordsOwner(req.Session)
	ms, open := r.leading.evaluator.Timeout(req.Session)
	alive := open && s != nil && !s.Closing()
	full := r.refusesWrites() && !r.o.Disk.RoomForDeletes()
	b := barrier{origin: req.Origin, session: req.Session}
	switch {
	case expiredEarly.Planted() && s != nil && s.Closing():
		b.code = jute.ErrSessionExpired
		r.placeBarrier(b)
		return true
	case alive && records && full, r.doomed(s, req.Session):
		b.code = jute.ErrSessionMoved
	case alive && r.movedOn(req):
		b.code = MovedOn
	case alive && !records && (full || ms == req.TimeoutMs):
		r.resumeInMemory(req, ms)
	case alive:
		return r.proposeResumption(req, ms, records)
	}
	b.read = r.leaseOrRead(req.Origin)
	r.placeBarrier(b)
	return true
}

// movedOn reports whether a client continues a session that another client has taken over meanwhile. If it did not
// know, two clients could take a session from each other without end.
func (r *Replica) movedOn(req *evaluate.Request) bool {
	moved := jute.Holder(req.Cxid).Lost(r.leading.evaluator.Holder(req.Session))
	return moved && !movedRegained.Planted()
}

// proposeResumption proposes the transaction of resume, for a session whose timeout is ms. It
// reports whether it could.
func (r *Replica) proposeResumption(req *evaluate.Request, ms int32, records bool) bool {
	if _, ok := r.Core.NextZxid(); !ok || !r.leading.evaluator.Ready() {
		return false
	}
	if records {
		r.o.Tracker.Resume(req.Session, req.TimeoutMs, req.Origin, r.now())
	} else {
		r.resumeInMemory(req, req.TimeoutMs)
	}
	if timeoutForgotten.Planted() {
		req.TimeoutMs = ms
	}
	req.Resumes, req.Owns = true, records
	r.proposeOne(req, r.o.Now(), r.o.Wall(), newArena(1))
	return true
}

// resumeInMemory makes the new connection the owner of a session whose owner this leader alone
// knows. It ends the old connection.
func (r *Replica) resumeInMemory(req *evaluate.Request, ms int32) {
	old, _ := r.o.Tracker.Resume(req.Session, ms, req.Origin, r.now())
	if old != 0 && old != req.Origin && ServerOf(old) != ServerOf(req.Origin) {
		r.placeBarrier(barrier{origin: old, code: jute.ErrSessionMoved})
	}
}

// txns recycles the transactions between a leader's evaluator and its applier.
var txns = sync.Pool{New: func() any { return new(datatree.Txn) }}

// NewTxn returns an empty transaction.
func NewTxn() *datatree.Txn { return txns.Get().(*datatree.Txn) }

// RecycleTxn reuses the memory of a transaction that is applied, or passed, for a later
// one.
func RecycleTxn(txn *datatree.Txn) {
	clear(txn.Ops)
	*txn = datatree.Txn{Ops: txn.Ops[:0]}
	txns.Put(txn)
}

// arena holds the encoded transactions of one batch side by side. It becomes garbage with
// the last of them.
type arena struct {
	buf  []byte
	left int // requests still to come, to estimate the size
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
