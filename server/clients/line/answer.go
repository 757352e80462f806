package line

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line/pending"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/replica"
)

// Applied is called when a transaction has changed the tree: its watchers hear of the events, then
// its effects on sessions follow, and the answer to its client, if that is connected here.
func (a *Answers) Applied(o *replica.Order, txn *datatree.Txn, out *datatree.Applied, here bool) {
	a.Events(txn, out)
	for i := range txn.Ops {
		a.sessionEffect(txn, &txn.Ops[i])
	}
	if here && txn.Origin != 0 {
		a.answerTxn(o, txn, out.Results)
	}
	if eventLate.Planted() {
		a.sendLate()
	}
}

// Events publishes the changes of a transaction, or of a slice of one: feeds get them before the line
// gets an event or a reply that shows them.
func (a *Answers) Events(txn *datatree.Txn, out *datatree.Applied) {
	if a.History != nil {
		a.History.Add(txn, out, a.State.Tree.LastZxid())
	}
	for i := range out.Events {
		ev := &out.Events[i]
		a.applier.Fired(ev, a.Notify(ev, txn.Zxid))
	}
}

// sessionEffect keeps the tracker and the lines in step with the tree's session table.
func (a *Answers) sessionEffect(txn *datatree.Txn, op *datatree.Op) {
	switch op.Kind {
	case datatree.OpCreateSession, datatree.OpAdoptSession:
		a.Sessions.Add(txn.Session, op.TimeoutMs, millis(a.now))
		_ = a.Sessions.SetOwner(txn.Session, txn.Origin) // it was added just now
		a.sessionOpened(txn.Session)
	case datatree.OpSetTimeout:
		a.Sessions.SetTimeout(txn.Session, op.TimeoutMs, txn.Origin, millis(a.now))
	case datatree.OpSetOwner:
		a.sessionMoved(txn.Session, txn.Origin)
	case datatree.OpCloseSession:
		a.Sessions.Remove(txn.Session)
		a.sessionClosed(txn.Session, txn.Origin)
	}
}

// sessionClosed ends the line of a closed session, unless that line closed
// the session: then it ends with its answer.
func (a *Answers) sessionClosed(id jute.SessionID, origin uint64) {
	l := a.Register.Release(id)
	ends := l != nil && l.id != origin
	ends = ends || closerKilled.Planted() && l != nil
	if ends {
		l.host.Kill()
	}
}

// sessionMoved ends the line of a session that another line owns now.
func (a *Answers) sessionMoved(id jute.SessionID, owner uint64) {
	l := a.Register.OfSession(id)
	moved := l != nil && l.id != owner
	moved = moved && !movedKept.Planted()
	if moved {
		a.Register.Release(id)
		l.host.Kill()
	}
}

// answerTxn gives the result of a transaction to the line that requested it, if that still exists.
func (a *Answers) answerTxn(o *replica.Order, txn *datatree.Txn, results []datatree.Result) {
	if l := a.Register.Get(txn.Origin); l != nil {
		a.answer(l, o, txn, results)
	} else {
		a.applier.AnswerLost(txn, results)
	}
}

// Barrier answers a request that has no transaction.
func (a *Answers) Barrier(o *replica.Order) {
	l := a.Register.Get(o.Origin)
	moved := o.Code == jute.ErrSessionMoved
	moved = moved && !movedAnswered.Planted()
	switch {
	case l == nil:
	case moved:
		l.host.Lock()
		if l.Waiting.queue.Len() > 0 {
			a.applier.Answering(l, l.Waiting.queue.Front(), o, nil, nil)
		}
		l.host.Unlock()
		l.host.Kill() // its session is elsewhere now
	default:
		a.answer(l, o, nil, nil)
	}
}

// answer replies to the oldest request of l, and then serves the reads that
// waited for that. txn is nil for a barrier.
func (a *Answers) answer(l *Line, o *replica.Order, txn *datatree.Txn, results []datatree.Result) {
	l.host.Lock()
	reads, own := a.answerLocked(l, o, txn, results)
	l.host.Unlock()
	a.endThem()
	if own {
		// The reader continues, and writes the response. The request must leave the queue
		// first: otherwise nobody would serve a read that was queued after it.
		l.host.Decided()
		return
	}
	if reads {
		a.serveReads(l)
	}
	a.applier.Dirty(l)
}

// answerLocked replies to the oldest request. It reports whether a read is next, and whether the
// request was the line's own. The line is locked.
func (a *Answers) answerLocked(l *Line, o *replica.Order, txn *datatree.Txn, results []datatree.Result) (reads, own bool) {
	if l.Outbox.Ends() || l.Waiting.queue.Len() == 0 {
		a.applier.Unanswered(l, txn, results)
		return false, false
	}
	a.req = *l.Waiting.queue.Front()
	req := &a.req
	if !answers(req, o, txn) {
		a.applier.Ends(l, Misfit, req, o)
		a.end(l)
		return false, false
	}
	if replyUnordered.Planted() && l.Waiting.queue.Len() > 1 {
		list := l.Waiting.queue.All()
		list[0].Xid, list[1].Xid = list[1].Xid, list[0].Xid
		req.Xid = list[0].Xid
	}
	a.applier.Answering(l, req, o, txn, results)
	a.read = Read{}
	zxid, code, session := a.State.Tree.LastZxid(), o.Code, o.Session
	if txn != nil {
		zxid, code, session = txn.Zxid, txn.Err, txn.Session
	}
	switch {
	case req.own == upgradesOwn:
		if code != 0 {
			l.Session.tracked.Load().Disown(l.id) // it stays a local one
		}
	case req.own != 0:
		a.opened(l, req, session, code)
	default:
		a.replyTo(l, req, zxid, code, txn, results)
	}
	if a.read.More {
		l.Waiting.queue.Front().ordered = false // the leader is not needed for the rest
		return true, false
	}
	if req.own != upgradesOwn {
		counted := o.Code
		if txn != nil {
			counted = txn.Err
		}
		a.applier.Answered(l, req, o, counted)
	}
	return a.pop(l), req.own != 0
}

// answers reports whether o, or the transaction txn, can be the result of req.
func answers(req *Request, o *replica.Order, txn *datatree.Txn) bool {
	if !req.ordered {
		return false
	}
	if txn != nil {
		return txn.Cxid == req.Xid
	}
	switch req.Op {
	case jute.OpSync, jute.OpReconfig, jute.OpTransferLeader:
		return true
	}
	return o.Code != 0 || !replica.Ordered(req.Op) // a refusal can be the result of any request
}

// replyTo appends the reply to a request that the leader has ordered.
func (a *Answers) replyTo(l *Line, req *Request, zxid jute.Zxid, code jute.Code, txn *datatree.Txn, results []datatree.Result) {
	moved := code == jute.ErrSessionMoved
	moved = moved && !movedAnswered.Planted()
	switch {
	case moved:
		a.end(l) // the client is elsewhere, and must not get anything from here
	case code != 0:
		l.ReplyCode(req.Xid, zxid, code)
	case req.Op == jute.OpCloseSession:
		l.ReplyCode(req.Xid, zxid, 0)
		l.endSession()
	case txn != nil:
		l.Outbox.Finish(datatree.AppendReply(l.Reply(req.Xid, zxid, 0), txn, results))
	case !replica.Ordered(req.Op):
		req.Auth = l.host.Held(req.Auth)
		a.serve(l, req)
	case req.Op == jute.OpSync:
		replySync(l, req, zxid)
	case req.Op == jute.OpReconfig:
		data, node, _ := a.State.Tree.GetData(datatree.ConfigPath)
		stat := node.Stat()
		l.Outbox.Finish(stat.Append(jute.AppendBuffer(l.Reply(req.Xid, zxid, 0), data)))
	default: // transferLeader
		l.ReplyCode(req.Xid, zxid, 0)
	}
}

// replySync echoes the request's record, so that a null path stays null.
func replySync(l *Line, req *Request, zxid jute.Zxid) {
	var p jute.SyncRequest
	d := jute.NewAliasDecoder(req.Body)
	p.Decode(&d)
	if d.Err() != nil {
		l.ReplyCode(req.Xid, zxid, jute.ErrMarshalling)
		return
	}
	record := req.Body[:len(req.Body)-len(d.Rest())]
	l.Outbox.Finish(append(l.Reply(req.Xid, zxid, 0), record...))
}

// serve serves a request that has waited, and reports whether the line continues. The line is locked.
func (a *Answers) serve(l *Line, req *Request) bool {
	if !req.ServedByHost() {
		a.read = Read{}
		if !l.Serve(req, a.now, &a.read) {
			l.Outbox.End(true)
			return false
		}
		return true
	}
	l.host.Unlock()
	l.host.Operate(req)
	l.host.Lock()
	return true
}

// serveReads serves the reads at the head of the queue, up to the next ordered request.
func (a *Answers) serveReads(l *Line) {
	n := 0
	for more := true; more; {
		var served bool
		l.host.Lock()
		served, more = a.serveNext(l)
		l.host.Unlock()
		a.endThem()
		if served {
			n++
			a.applier.Yield()
		}
	}
	a.applier.ServedAll(n)
}

// serveNext serves the read at the head of the queue, or a part of it, if the line continues, and reports whether
// more is next. The line is locked.
func (a *Answers) serveNext(l *Line) (served, more bool) {
	if l.Outbox.gone || l.Waiting.queue.Len() == 0 {
		return false, false
	}
	slow := l.Outbox.tooSlow()
	slow = slow && !slowReadsKept.Planted()
	if slow {
		a.Server.Slow(l, Reads)
		a.end(l)
		return false, false
	}
	a.req = *l.Waiting.queue.Front()
	req := &a.req
	req.Auth = l.host.Held(req.Auth)
	if !a.serve(l, req) {
		return false, false
	}
	if a.read.More {
		return true, true
	}
	a.applier.ServedLate(l, req, &a.read)
	return true, a.pop(l)
}

// pop removes the answered request from the queue, and reports whether a read is next.
func (a *Answers) pop(l *Line) (read bool) {
	if l.Waiting.queue.Len() == 0 { // torn down meanwhile
		return false
	}
	l.Drop()
	return l.Waiting.queue.Len() > 0 && l.Waiting.queue.Front().Kind() == pending.Read
}
