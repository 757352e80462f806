package line

import (
	"time"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line/pending"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
)

// Way is what happens with a request.
type Way uint8

// The ways.
const (
	Serve  Way = iota // from the tree: see Line.Queue and Line.Serve
	Submit            // to the leader: see Line.Submit
	Reject            // nothing is changed here without a leader: see jute.ErrNotReadOnly
)

// Arrived records that the client was heard of, before the requests that have come together are handled, and
// whether they may be answered without the leader: answersUntil says when that ends, in ms. last is what
// Session.Arriving has returned. The reader calls it, without the lock.
func (l *Line) Arrived(last int64, at time.Duration, answersUntil int64) {
	now := millis(at)
	lives := l.Session.arrived(now)
	recent := now-last < replica.LateAfter(l.Session.timeoutMs)
	l.batch = batch{mayAnswerLocally: l.Session.Local() || lives && now < answersUntil && recent}
}

// Pinged is called instead of Arrived for a ping that is not a request, of a client that has sent nothing since an earlier ping. It reports
// whether that was enough, and its session lives: otherwise, the client has to send it as a request, which is as late as if there had been no ping. The
// caller holds the lock, and there is no reader.
func (l *Line) Pinged(at time.Duration, answersUntil int64) (enough bool) {
	if pingMissed.Planted() {
		return true
	}
	last := l.Session.Arriving()
	l.Arrived(last, at, answersUntil)
	enough = l.Waiting.Len() == 0 && !l.Outbox.Ends() && !l.NeedsBarrier(jute.OpPing, false)
	heard := enough || refusedHeard.Planted()
	if !heard {
		l.Session.touched.Store(last)
	}
	return enough
}

// Accept begins to handle a request. An error ends the connection. The reader calls it, without the lock.
func (l *Line) Accept(req *Request) error {
	if l.exactlyOnce() && exact.Covers(req.Op) {
		if err := req.takeNumber(); err != nil {
			return err
		}
	}
	return nil
}

// Lacks reports whether an operation is of an extension that the connection has not got. Such a request is unknown.
func (l *Line) Lacks(op jute.OpCode) bool { return op.Feature()&^l.granted != 0 }

// WayOf returns what happens with a request. linearizable: reads need the leader's confirmation.
// The reader calls it, without the lock.
func (l *Line) WayOf(req *Request, linearizable bool) Way {
	ordered := replica.Ordered(req.Op)
	switch {
	case req.Refusal != 0, l.Lacks(req.Op), req.Op == jute.OpCloseSession && l.Session.Local():
		return Serve
	case l.readOnly && ordered:
		return Reject
	case ordered || l.NeedsBarrier(req.Op, linearizable):
		return Submit
	}
	return Serve
}

// NeedsBarrier reports whether the leader must confirm a request that does not need it
// otherwise: reads if they are to be linearizable, and any request that this server
// may not answer alone. One confirmation serves all requests that arrived with it.
func (l *Line) NeedsBarrier(op jute.OpCode, linearizable bool) bool {
	return !l.readOnly && l.batch.needsBarrier(op, linearizable)
}

// Queue appends a read to the requests that wait, if there are any: it is served after the one
// ahead was answered. If there are none, nobody would serve it. The reader calls it.
func (l *Line) Queue(req Request) bool {
	empty := l.Waiting.queue.Len() == 0
	empty = empty || readOvertakes.Planted()
	if empty {
		return false
	}
	l.Waiting.push(req)
	return true
}

// Submit queues an ordered request, and returns it as the leader gets it. The reader calls it. For a reconfig the
// tree is locked.
func (l *Line) Submit(req *Request) replica.Submission {
	if req.Op == jute.OpReconfig {
		req.members = l.lines.Server.Members()
	}
	l.batch.askedLeader = true
	req.ordered = true
	return l.submission(req, l.Waiting.push(*req))
}

// submission returns a waiting request as the leader gets it.
func (l *Line) submission(req *Request, service uint64) replica.Submission {
	kind, op := replica.Write, req.Op
	if req.Kind() == pending.Barrier {
		kind, op = replica.Barrier, jute.OpSync
	}
	return replica.Submission{
		Kind:     kind,
		Service:  service,
		Received: req.Received,
		Request: evaluate.Request{
			Op:      op,
			Local:   l.Session.Local(),
			Session: l.SessionID(),
			Cxid:    req.Xid,
			Origin:  l.id,
			Auth:    req.Auth,
			Body:    req.Body,

			Number:    req.number,
			Confirmed: req.confirmed,
		},
	}
}
