package server

import (
	"errors"
	"sync"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/wal"
	"github.com/zkd-project/zkd/server/zab"
)

// submission is what a connection, or the server itself, asks of the leader.
type submission struct {
	kind     submissionKind
	received time.Duration
	req      evaluate.Request
}

type submissionKind uint8

const (
	submitWrite   submissionKind = iota // becomes a transaction
	submitBarrier                       // answered when all before it is applied
	submitResume                        // a session wants to go on from a new connection
)

// evaluateBatch is how many requests are evaluated under one hold of the
// tree's read lock, so that the applier never waits long for it.
const evaluateBatch = 64

// leader is the peer loop: it owns the core, the overlay of the evaluator and
// the next zxid. It turns submissions into transactions, gives them to the log
// writer, and gives what is committed to the applier.
type leader struct {
	*Server
	in        *queue[submission]
	core      *zab.Core
	evaluator *evaluate.Evaluator
	out       zab.Output
	records   []wal.Record // being handed to the log writer
	// proposed are the orders not committed yet, oldest first. A barrier waits
	// for the transactions before it.
	proposed []order

	// logged are the batches at the log writer, oldest first: the number that
	// the log gave a batch's last record, and the core's number of the batch.
	logged []loggedBatch
}

type loggedBatch struct {
	wal uint64
	seq zab.Seq
}

// submit hands requests over, in order. It may be called from any goroutine.
func (l *leader) submit(subs ...submission) { l.in.put(subs...) }

func (l *leader) run() {
	var batch []submission
	for {
		select {
		case <-l.in.ready:
			batch = l.in.take(batch)
			l.metrics.taken.observe(time.Duration(len(batch)), 1)
			l.process(batch)
		case <-l.logWriter.progress:
			l.persisted(l.logWriter.durable.Load())
		case <-l.stopping:
			return
		}
		l.dispatch()
	}
}

// persisted tells the core which batches the log has made durable.
func (l *leader) persisted(upTo uint64) {
	n := 0
	for n < len(l.logged) && l.logged[n].wal <= upTo {
		n++
	}
	if n > 0 {
		l.core.PersistDone(l.logged[n-1].seq)
		l.logged = append(l.logged[:0], l.logged[n:]...)
	}
}

// process evaluates a batch and proposes the outcome.
func (l *leader) process(batch []submission) {
	now := l.now()
	nowMs := time.Now().UnixMilli()
	payload := newArena(len(batch))
	for rest := batch; len(rest) > 0; {
		n := min(len(rest), evaluateBatch)
		l.state.mu.RLock()
		l.evaluator.Applied(l.state.tree.LastZxid())
		for i := range rest[:n] {
			l.one(&rest[i], now, nowMs, payload)
		}
		l.state.mu.RUnlock()
		rest = rest[n:]
		l.dispatch() // the log can begin with these
	}
}

// one takes one submission in. The tree is locked for reading.
func (l *leader) one(sub *submission, now time.Duration, nowMs int64, payload *arena) {
	req := &sub.req
	if code := l.refuse(sub, now); code != 0 {
		l.proposed = append(l.proposed, order{origin: req.Origin, code: code})
		return
	}
	switch sub.kind {
	case submitBarrier:
		l.proposed = append(l.proposed, order{origin: req.Origin})
		return
	case submitResume:
		l.resume(req, now)
		return
	}
	l.checkOwner(req)
	txn := newTxn()
	zxid, _ := l.core.NextZxid()
	l.evaluator.Evaluate(req, zxid, nowMs, txn)
	data := payload.encode(txn)
	l.core.Propose(txn.Zxid, data)
	l.proposed = append(l.proposed, order{zxid: txn.Zxid, txn: txn, data: data})
}

// refuse returns the code by which a write is turned away before it is looked at
// any closer, without a trace in the log, or 0.
func (l *leader) refuse(sub *submission, now time.Duration) jute.Code {
	if sub.kind != submitWrite {
		return 0
	}
	limit := l.cfg.ThrottledOpWaitTime
	if limit > 0 && now-sub.received > limit && sub.req.Op != jute.OpCloseSession && sub.req.Op != jute.OpCreateSession {
		l.metrics.throttledOps.Add(1)
		return jute.ErrThrottledOp
	}
	return l.refusedByDisk(&sub.req)
}

// checkOwner refuses what a client sent before it moved to another connection.
// Whether the session is open is the evaluator's question.
func (l *leader) checkOwner(req *evaluate.Request) {
	if req.Origin == 0 || req.Op == jute.OpCreateSession {
		return
	}
	if err := l.tracker.CheckOwner(req.Session, req.Origin); errors.Is(err, jute.ErrSessionMoved) {
		req.Refused = jute.ErrSessionMoved
		return
	}
	if req.Op == jute.OpCloseSession {
		l.tracker.MarkClosing(req.Session) // so that it does not expire as well
	}
}

// resume makes the new connection the session's owner: what the old one has
// still under way is refused from here on. The client is answered behind a
// barrier, when it is settled whether the session lives: one that is being
// closed is called expired only once the close is committed.
func (l *leader) resume(req *evaluate.Request, now time.Duration) {
	if l.tracker.Renew(req.Session, req.TimeoutMs, millis(now)) {
		l.tracker.SetOwner(req.Session, req.Origin)
	}
	l.proposed = append(l.proposed, order{origin: req.Origin, session: req.Session})
}

// dispatch carries out what the core asks for.
func (l *leader) dispatch() {
	l.core.Take(&l.out)
	if len(l.out.Persist) > 0 {
		l.persist()
	}
	n := 0
	for n < len(l.proposed) && l.proposed[n].zxid <= l.out.CommitTo {
		n++
	}
	if n > 0 {
		l.applier.in.put(l.proposed[:n]...)
		rest := copy(l.proposed, l.proposed[n:])
		clear(l.proposed[rest:])
		l.proposed = l.proposed[:rest]
	}
}

// persist gives the core's entries to the log writer. If the log has failed they
// are never durable, so never committed, and the server is stopping already.
func (l *leader) persist() {
	l.records = l.records[:0]
	for i := range l.out.Persist {
		e := &l.out.Persist[i].Entry
		l.records = append(l.records, wal.Record{Kind: wal.Append, Zxid: e.Zxid, Prev: e.Prev, Payload: e.Data})
	}
	l.metrics.proposals.Add(int64(len(l.records)))
	last, err := l.logWriter.Submit(l.records...)
	clear(l.records)
	if err == nil {
		l.logged = append(l.logged, loggedBatch{wal: last, seq: l.out.PersistSeq})
	}
}

// txns are the transactions between the evaluator and the applier of a leader.
var txns = sync.Pool{New: func() any { return new(datatree.Txn) }}

func newTxn() *datatree.Txn { return txns.Get().(*datatree.Txn) }

// recycleTxn gives an applied transaction's memory to a later one.
func recycleTxn(o *order) {
	if o.txn == nil {
		return
	}
	clear(o.txn.Ops)
	*o.txn = datatree.Txn{Ops: o.txn.Ops[:0]}
	txns.Put(o.txn)
	o.txn = nil
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
