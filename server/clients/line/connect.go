package line

import (
	"errors"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
)

// Why a client may not connect here.
var (
	ErrNotServing  = errors.New("server is not serving")
	ErrClientAhead = errors.New("client has seen a later zxid than this server")
)

// Admission is what decides whether a client may connect.
type Admission struct {
	Service  uint64 // the present one, or 0
	Serving  bool   // there is a leader
	ReadOnly bool   // there is none, and clients that allow that are served
	Alone    bool   // there is one server
	Session  bool   // the client wants to resume one; or else a new one
	ID       jute.SessionID
	AllowsRO bool      // the client may be served without a leader
	Seen     jute.Zxid // the last zxid that the client has seen
}

// Admit checks a connect request before any work is done for it, and begins the line. A refusal closes
// the connection without a reply, so the client tries another server.
func (s *Lines) Admit(l *Line, a *Admission) error {
	earlier := l.id < a.Service && s.fenced.Load() < a.Service
	earlier = earlier && !earlierAdmitted.Planted()
	switch {
	case earlier: // what it asks for could not be told from what earlier connections did
		return ErrNotServing
	case !a.Serving:
		if l.readOnly = a.ReadOnly && a.AllowsRO; !l.readOnly {
			return ErrNotServing
		}
	}
	// A session is resumed after everything that the leader has ordered, so a server that
	// lags only a little need not refuse the client: the leader does, if the client is ahead of
	// it. Where the leader does not decide, the check is made now.
	decides := a.ID != 0 && !l.Locally(a.ID) && !a.Alone
	if a.Seen > s.State.Applied() && !decides {
		return ErrClientAhead
	}
	l.seen = a.Seen
	l.host.Lock()
	l.Waiting.queue.Service = a.Service
	l.host.Unlock()
	return nil
}

// Open returns what the leader gets to create a session, or to resume one. Host.Decided is called
// when the response is in the buffer, or the connection has ended. readOnly: the client has sent that
// flag. The reader calls it.
func (l *Line) Open(id jute.SessionID, resume, readOnly bool, at time.Duration) replica.Submission {
	sub := replica.Submission{
		Kind:     replica.Write,
		Received: at,
		Request: evaluate.Request{Op: jute.OpCreateSession, Session: id, Origin: l.id, TimeoutMs: l.Session.timeoutMs,
			Exact: l.asked.Features&jute.FeatureExactlyOnce != 0, Cxid: int32(l.asked.Holder)},
	}
	if resume {
		sub.Kind, sub.Seen = replica.Resume, l.seen
	}
	req := Request{Op: jute.OpCreateSession, Xid: int32(l.asked.Holder), Received: at, ordered: true, own: connects}
	if readOnly {
		req.own = connectsRO
	}
	sub.Service = l.Waiting.push(req)
	l.Session.touched.Store(millis(at)) // the leader starts the session's timeout no earlier than this
	return sub
}

// opened answers the request of Open: the session has been created or resumed, or a barrier has
// passed because it could not be. The session exists then, or it never will again, unless it was a local one. The client is
// told the timeout in the tree, which holds on all servers. The tree is locked for writing.
func (a *Answers) opened(l *Line, req *Request, id jute.SessionID, code jute.Code) {
	tree, readOnly := a.State.Tree, req.own == connectsRO
	tracked := a.Sessions.Get(id)
	timeoutMs, alive := tree.Session(id)
	ahead := tree.LastZxid() < l.seen
	ahead = ahead && !aheadServed.Planted()
	if ahead { // a leader of an earlier version does not look
		a.applier.Ends(l, Ahead, req, nil)
		a.end(l)
		return
	}
	if code == jute.ErrNotReadOnly {
		a.openUnlogged(l, readOnly)
		return
	}
	if !alive || code != 0 || tracked == nil {
		l.refuse(readOnly, alive && code == replica.MovedOn)
		return
	}
	closing := tracked.Closing() // neither open nor closed: the client tries again
	closing = closing && !closingServed.Planted()
	taken := !a.mayOwn(l, id)
	taken = taken && !takenServed.Planted()
	if closing || taken {
		a.end(l)
		return
	}
	old := a.Register.Claim(id, l)
	replaced := old != nil && old != l
	replaced = replaced && !otherKept.Planted()
	if replaced {
		a.end(old)
	}
	if requestedTimeout.Planted() {
		timeoutMs = l.Session.timeoutMs
	}
	l.Session.timeoutMs = timeoutMs
	l.Session.establish(id, tracked, false)
	password := a.State.Password(id)
	l.respond(&jute.ConnectResponse{TimeoutMs: l.Session.timeoutMs, SessionID: id, Password: password[:], HasReadOnly: readOnly}, false)
	a.applier.Established(l)
}

// mayOwn reports whether a session that a line has asked for is its own, or the history does not say whose
// it is. The leader may have refused a local session, which has become a global one of another line since.
func (s *Lines) mayOwn(l *Line, id jute.SessionID) bool {
	owner := s.State.Tree.SessionOwner(id)
	return owner == 0 || owner == l.id
}
