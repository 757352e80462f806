package clients

import (
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/watch"
)

// Answers delivers the applier's results to the connections that wait for them. Only the
// applier calls its methods, with State locked for writing except in Wake.
type Answers struct {
	clients *Clients
	served  func() // see NewAnswers

	now      time.Duration       // of the batch
	dirty    []*conn             // have output to be written after the batch; while there are any, Clients.running counts them as one
	deliver  func(watch.Watcher) // deliverTo, made once
	ev       *datatree.Event     // being delivered
	zxid     jute.Zxid           // of the transaction that it belongs to
	event    []byte              // its notification, encoded once; empty until a watcher is found
	notified int                 // how many watchers it was sent to

	interlude bool // see BeginInterlude

	same               sameResults            // answers to writes in a row with the same latency
	latency            time.Duration          // of these
	namespace, written monitor.NamespaceCount // of reads and of writes
}

// NewAnswers returns the applier's side of the clients. served is called after each read
// that had waited for an answer. It may unlock State for a while.
func (s *Clients) NewAnswers(served func()) *Answers {
	a := &Answers{clients: s, served: served}
	a.deliver = a.deliverTo
	return a
}

// countSame counts the answers that observeLocked has collected.
func (a *Answers) countSame() {
	if a.same.n > 0 {
		a.clients.metrics.Requests.Observe(a.same.op, a.same.code, a.latency, a.same.n)
		a.same.n = 0
	}
}

// Written counts a write to a node, of so many bytes of data.
func (a *Answers) Written(path string, bytes int) {
	a.written.Add(&a.clients.metrics.WritePerNamespace, path, len(path)+bytes)
}

// Begin begins a batch.
func (a *Answers) Begin(now time.Duration) { a.now = now }

// Wake has the output of the batch written. State is not locked.
func (a *Answers) Wake() {
	a.clients.audit.Load().wake()
	if len(a.dirty) > 0 {
		for _, c := range a.dirty {
			c.dirty = false
		}
		a.clients.flushers.add(a.dirty...)
		a.clients.running.Done()
		clear(a.dirty)
		a.dirty = a.dirty[:0]
	}
	a.clients.throttler.relax()
	a.countSame()
	a.written.Flush()
	a.clients.metrics.WaitingWrites.Observe(time.Duration(a.clients.throttler.waiting.Load()), 1)
}

// Answer gives the result of a transaction to the connection that requested it, if that
// connection still exists.
func (a *Answers) Answer(o *replica.Order, txn *datatree.Txn, results []datatree.Result) {
	if c := a.clients.conns.Get(txn.Origin); c != nil {
		a.answer(c, o, txn, results)
	} else if log := a.clients.audit.Load(); !log.off() {
		log.unheard(txn, results)
	}
}

// SessionClosed ends the connection of a closed session, unless that connection closed
// the session: then it ends with its answer.
func (a *Answers) SessionClosed(id jute.SessionID, origin uint64) {
	if c := a.clients.conns.Release(id); c != nil && c.id != origin {
		c.kill()
	}
}

// SessionMoved ends the connection of a session that another connection owns now.
func (a *Answers) SessionMoved(id jute.SessionID, owner uint64) {
	if c := a.clients.conns.OfSession(id); c != nil && c.id != owner {
		a.clients.conns.Release(id)
		c.kill()
	}
}

// Barrier answers a request that has no transaction.
func (a *Answers) Barrier(o *replica.Order) {
	c := a.clients.conns.Get(o.Origin)
	switch {
	case c == nil:
	case o.Code == jute.ErrSessionMoved:
		c.mu.Lock()
		if c.mu.pending.Len() > 0 {
			a.clients.audit.Load().answeredLocked(c, c.mu.pending.Front(), o, nil, nil)
		}
		c.mu.Unlock()
		c.kill() // its session is elsewhere now
	default:
		a.answer(c, o, nil, nil)
	}
}

// Notify sends an event of a transaction to its watchers that may read the node. It returns
// their number.
func (a *Answers) Notify(ev *datatree.Event, zxid jute.Zxid) (notified int) {
	a.ev, a.zxid, a.event, a.notified = ev, zxid, a.event[:0], 0
	a.clients.state.Watches.Trigger(ev.Type, ev.Path, a.deliver)
	return a.notified
}

// deliverTo sends the event to one watcher. The watch table is locked.
func (a *Answers) deliverTo(w watch.Watcher) {
	c := a.clients.conns.Watcher(w)
	if c == nil || !a.clients.schemes.Allowed(a.ev.ACL, jute.PermRead, c.present().IDs()) {
		return
	}
	if len(a.event) == 0 {
		b, mark := jute.BeginFrame(a.event)
		h := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: a.zxid}
		a.event = jute.EndFrame(appendEvent(h.Append(b), a.ev.Type, a.ev.Path), mark)
	}
	if !c.send(a.event) {
		a.clients.log.Warn("closing connection: it does not take its watch events",
			zap.Stringer("remote", c.nc.RemoteAddr()), zap.Int("limit_bytes", outLimit))
		c.kill()
		return
	}
	a.notified++
	a.clients.metrics.ResponseSizes.Observe(len(a.event) - 4) // without the frame's length
	a.clients.metrics.WatchBytes.Add(int64(len(a.event)))
	a.markDirty(c)
}

// markDirty has the connection's output written after the batch. The tree lock is held, so the
// connection's reader can't have completed forget, and the group of goroutines is not empty.
func (a *Answers) markDirty(c *conn) {
	if c.dirty {
		return
	}
	c.dirty = true
	if len(a.dirty) == 0 {
		a.clients.running.Add(1) // until Wake
	}
	a.dirty = append(a.dirty, c)
}

// answer replies to the oldest pending request of c, and then serves the reads that
// waited for that. txn is nil for a barrier.
func (a *Answers) answer(c *conn, o *replica.Order, txn *datatree.Txn, results []datatree.Result) {
	c.mu.Lock()
	if c.mu.gone || c.mu.ending || c.mu.pending.Len() == 0 {
		a.clients.audit.Load().unansweredLocked(c, txn, results)
		c.mu.Unlock()
		return
	}
	req := *c.mu.pending.Front()
	if !req.ordered || txn != nil && txn.Cxid != req.xid || txn == nil && !answers(&req, o) {
		c.mu.Unlock()
		a.clients.log.Error("answer does not belong to the oldest request: closing the connection; report this",
			zap.Stringer("zxid", o.Zxid), zap.Int32("xid", req.xid), zap.Stringer("op", req.op))
		c.kill()
		return
	}
	a.clients.audit.Load().answeredLocked(c, &req, o, txn, results)
	if !a.replyLocked(c, &req, o, txn, results) {
		c.mu.Unlock()
		a.answerSpecial(c, &req, o, txn)
		c.mu.Lock()
	}
	if req.xid != replica.UpgradeXid || req.outcome == nil {
		code := o.Code
		if txn != nil {
			code = txn.Err
		}
		a.observeLocked(c, &req, o, code)
	}
	reads := a.popLocked(c)
	c.mu.Unlock()
	if req.outcome != nil {
		// The reader continues, and writes the response. The request must leave the queue
		// first: otherwise nobody would serve a read that was queued after it.
		close(req.outcome)
		return
	}
	if reads {
		a.serveReads(c)
	}
	a.markDirty(c)
}

// answers reports whether o, which has no transaction, can be the result of req: a
// refusal can be the result of any request.
func answers(req *request, o *replica.Order) bool {
	switch req.op {
	case jute.OpSync, jute.OpReconfig, jute.OpTransferLeader:
		return true
	}
	return o.Code != 0 || !replica.Ordered(req.op)
}

// serveReads serves the reads at the head of c's queue, up to the next ordered
// request.
func (a *Answers) serveReads(c *conn) {
	served := int64(0)
	defer func() {
		a.namespace.Flush()
		a.clients.metrics.ReadsAfterWrite.Observe(time.Duration(served), 1)
	}()
	for more := true; more; {
		c.mu.Lock()
		if c.mu.gone || c.mu.pending.Len() == 0 {
			c.mu.Unlock()
			return
		}
		req := *c.mu.pending.Front()
		behind := c.overLimitLocked()
		c.mu.Unlock()
		if behind {
			a.clients.log.Warn("closing connection: the replies to reads after one write are too much",
				zap.Stringer("remote", c.nc.RemoteAddr()), zap.Int("limit_bytes", outLimit))
			c.kill()
			return
		}
		req.auth = c.stillHeld(req.auth)
		if !a.clients.answerRead(c, &req, &a.namespace) {
			c.endAfterFlush()
			return
		}
		a.clients.metrics.Requests.Observe(req.op, req.code, a.now-req.received, 1)
		if took := a.now - req.received; a.clients.slow.is(took) {
			a.clients.slow.note(c, &req, slowRequest{code: req.code, took: took})
		}
		if a.clients.traces.Samples(c.SessionID(), req.xid) {
			a.clients.traces.Add(tracedRequest(c, &req, req.code, nil))
		}
		served++
		c.mu.Lock()
		more = a.popLocked(c)
		c.mu.Unlock()
		a.served()
	}
}

// popLocked removes the answered request from c's queue, and reports whether a read is
// next.
func (a *Answers) popLocked(c *conn) (read bool) {
	pending := &c.mu.pending
	if pending.Len() == 0 { // torn down meanwhile
		return false
	}
	a.clients.dropLocked(c)
	return pending.Len() > 0 && !pending.Front().ordered
}

// dropLocked removes the oldest request from c's queue.
func (s *Clients) dropLocked(c *conn) {
	req := c.mu.pending.Front()
	large, size := req.large, req.size()
	c.mu.pending.Pop()
	if large > 0 {
		s.largeBytes.Add(-large)
	}
	c.pendingLen.Add(-1)
	s.throttler.leave(size)
	if c.mu.draining {
		c.drained.Broadcast()
	}
}

// observeLocked counts the answer to a request that was ordered by the leader.
func (a *Answers) observeLocked(c *conn, req *request, o *replica.Order, code jute.Code) {
	latency := a.now - req.received
	if a.clients.slow.is(latency) {
		a.clients.slow.note(c, req, slowRequest{code: code, took: latency, stages: stagesOf(o, req.received, a.now)})
	}
	if a.clients.traces.Samples(c.SessionID(), req.xid) {
		a.clients.traces.Add(tracedRequest(c, req, code, o))
	}
	if a.same.op != req.op || a.same.code != code || a.latency != latency {
		a.countSame()
		a.same.op, a.same.code, a.latency = req.op, code, latency
	}
	a.same.n++
	c.mu.stats.answered(req, a.clients.state.Tree.LastZxid())
	c.mu.stats.observe(latency, 1)
	c.mu.stats.lastResponse = a.now
}

// replyLocked appends the reply to a write, and reports whether req was one.
func (a *Answers) replyLocked(c *conn, req *request, o *replica.Order, txn *datatree.Txn, results []datatree.Result) bool {
	zxid, code := a.clients.state.Tree.LastZxid(), o.Code
	if txn != nil {
		zxid, code = txn.Zxid, txn.Err
	}
	switch {
	case req.outcome != nil, code == jute.ErrSessionMoved, txn == nil && code == 0, code == 0 && req.op == jute.OpCloseSession:
		return false
	case code != 0:
		c.endLocked(c.beginLocked(req.xid, zxid, code))
	default:
		c.endLocked(datatree.AppendReply(c.beginLocked(req.xid, zxid, 0), txn, results))
	}
	return true
}

// answerSpecial answers an ordered request that is not a plain write, or that ends the
// connection.
func (a *Answers) answerSpecial(c *conn, req *request, o *replica.Order, txn *datatree.Txn) {
	zxid, code, session := a.clients.state.Tree.LastZxid(), o.Code, o.Session
	if txn != nil {
		zxid, code, session = txn.Zxid, txn.Err, txn.Session
	}
	switch {
	case req.outcome != nil:
		if req.xid != replica.UpgradeXid {
			a.clients.answerConnect(c, session, code, req.body[0] == 1)
		}
	case code == jute.ErrSessionMoved:
		c.kill() // the client is elsewhere, and must not get anything from here
	case !replica.Ordered(req.op):
		req.auth = c.stillHeld(req.auth)
		if !a.clients.answerRead(c, req, &a.namespace) {
			c.endAfterFlush()
		}
	case req.op == jute.OpSync:
		a.answerSync(c, req, zxid)
	case req.op == jute.OpTransferLeader:
		c.reply(req.xid, zxid, 0)
	case req.op == jute.OpReconfig:
		data, node, _ := a.clients.state.Tree.GetData(datatree.ConfigPath)
		stat := node.Stat()
		c.end(stat.Append(jute.AppendBuffer(c.begin(req.xid, zxid, 0), data)))
	default: // closeSession
		c.reply(req.xid, zxid, 0)
		c.endSession()
	}
}

// answerSync echoes the request's record, so that a null path stays null.
func (a *Answers) answerSync(c *conn, req *request, zxid jute.Zxid) {
	var p jute.SyncRequest
	d := jute.NewAliasDecoder(req.body)
	p.Decode(&d)
	if d.Err() != nil {
		c.reply(req.xid, zxid, jute.ErrMarshalling)
		return
	}
	record := req.body[:len(req.body)-len(d.Rest())]
	c.end(append(c.begin(req.xid, zxid, 0), record...))
}
