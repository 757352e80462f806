package line

import (
	"errors"
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

// ErrHangUp ends a connection that is complete: its last bytes are in the buffer.
var ErrHangUp = errors.New("connection is done")

// Accept begins to handle a request. An error ends the connection. The reader calls it, without the lock.
func (l *Line) Accept(req *Request) error {
	if l.granted&jute.FeatureExactlyOnce != 0 && exact.Covers(req.Op) {
		if err := req.takeNumber(); err != nil {
			return err
		}
	}
	if req.Op.Feature()&^l.granted != 0 {
		l.host.Lock()
		l.ReplyCode(req.Xid, -1, jute.ErrUnimplemented)
		l.End(true)
		l.host.Unlock()
		return ErrHangUp
	}
	return nil
}

// WayOf returns what happens with a request. linearizable: reads need the leader's confirmation.
// The reader calls it, without the lock.
func (l *Line) WayOf(req *Request, linearizable bool) Way {
	ordered := replica.Ordered(req.Op)
	switch {
	case req.Refusal != 0, req.Op == jute.OpCloseSession && l.local.Load():
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
	if l.askedLeader || l.readOnly {
		return false
	}
	locally := l.mayAnswerLocally
	locally = locally || servedAlone.Planted()
	return !locally || linearizable && readsTree(op)
}

// Queue appends a read to the requests that wait, if there are any: it is served after the one
// ahead was answered. If there are none, nobody would serve it. The reader calls it.
func (l *Line) Queue(req Request) bool {
	empty := l.queue.Len() == 0
	empty = empty || readOvertakes.Planted()
	if empty {
		return false
	}
	l.push(req)
	return true
}

// Submit queues an ordered request, and returns it as the leader gets it. The reader calls it. For a reconfig the
// tree is locked.
func (l *Line) Submit(req *Request) replica.Submission {
	if req.Op == jute.OpReconfig {
		req.members = l.lines.Server.Members()
	}
	l.askedLeader = true
	req.ordered = true
	return l.submission(req, l.push(*req))
}

// push appends to the waiting requests, and returns the service in which the request has to be submitted.
func (l *Line) push(req Request) (service uint64) {
	l.waiting.Add(1)
	return l.queue.Push(req)
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
			Local:   l.local.Load(),
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

// arriving is the time of a touch before the clock has been read, so that a report can't miss a
// request that arrived before the report was made.
const arriving = -1

// Arriving notes that the client is heard of, before the clock is read. Arrived must follow. The reader
// calls both, without the lock.
func (l *Line) Arriving() (last int64) { return l.touched.Swap(arriving) }

// Arrived records that the client was heard of, before the requests that have come together are handled, and
// whether they may be answered without the leader: answersUntil says when that ends, in ms.
func (l *Line) Arrived(last int64, at time.Duration, answersUntil int64) {
	now := millis(at)
	l.touched.Store(now)
	lives := l.tracked.Load().Touch(now, l.timeoutMs)
	l.mayAnswerLocally = l.local.Load() || lives && now < answersUntil && now-last < replica.LateAfter(l.timeoutMs)
	l.askedLeader = false
}

// AskAgain makes the next request a barrier, although one of the same batch has been one.
func (l *Line) AskAgain() { l.askedLeader = false }
