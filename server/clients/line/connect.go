package line

import (
	"errors"
	"slices"
	"time"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
)

// Why a client may not connect here.
var (
	ErrNotServing  = errors.New("server is not serving")
	ErrClientAhead = errors.New("client has seen a later zxid than this server")
)

// Extend notes which extensions the client asks for, before Admit.
func (l *Line) Extend(asked jute.ExtensionRequest) { l.extended, l.asked = true, asked }

// ReadOnly reports whether the line has a session without a leader.
func (l *Line) ReadOnly() bool { return l.readOnly }

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
	decides := a.ID != 0 && s.Locals.Get(a.ID) == nil && !l.readOnly && !a.Alone
	if a.Seen > s.State.Applied() && !decides {
		return ErrClientAhead
	}
	l.seen = a.Seen
	l.host.Lock()
	l.queue.Service = a.Service
	l.host.Unlock()
	return nil
}

// SetTimeout sets the timeout that was negotiated, before Open.
func (l *Line) SetTimeout(ms int32) { l.timeoutMs = ms }

// Open returns what the leader gets to create a session, or to resume one. Host.Decided is called
// when the response is in the buffer, or the connection has ended. readOnly: the client has sent that
// flag. The reader calls it.
func (l *Line) Open(id jute.SessionID, resume, readOnly bool, at time.Duration) replica.Submission {
	sub := replica.Submission{
		Kind:     replica.Write,
		Received: at,
		Request: evaluate.Request{Op: jute.OpCreateSession, Session: id, Origin: l.id, TimeoutMs: l.timeoutMs,
			Exact: l.asked.Features&jute.FeatureExactlyOnce != 0},
	}
	if resume {
		sub.Kind, sub.Seen = replica.Resume, l.seen
	}
	req := Request{Op: jute.OpCreateSession, Received: at, ordered: true, own: connects}
	if readOnly {
		req.own = connectsRO
	}
	sub.Service = l.push(req)
	l.touched.Store(millis(at)) // the leader starts the session's timeout no earlier than this
	return sub
}

// Refuse tells the client that its session no longer exists, and ends the connection.
func (l *Line) Refuse(readOnly bool) {
	l.respond(&jute.ConnectResponse{Password: make([]byte, jute.PasswordLen), HasReadOnly: readOnly, ReadOnly: l.readOnly})
	l.End(true)
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
		l.Refuse(readOnly)
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
		timeoutMs = l.timeoutMs
	}
	l.timeoutMs = timeoutMs
	l.tracked.Store(tracked)
	l.session.Store(int64(id))
	password := a.State.Keys().Password(id)
	if tree.FromApache(id) {
		password = session.ApachePassword(id)
	}
	l.respond(&jute.ConnectResponse{TimeoutMs: l.timeoutMs, SessionID: id, Password: password[:], HasReadOnly: readOnly})
	a.applier.Established(l)
}

// mayOwn reports whether a session that a line has asked for is its own, or the history does not say whose
// it is. The leader may have refused a local session, which has become a global one of another line since.
func (s *Lines) mayOwn(l *Line, id jute.SessionID) bool {
	owner := s.State.Tree.SessionOwner(id)
	return owner == 0 || owner == l.id
}

// respond tells the client which session it has, and which extensions if it asked. The
// tree is locked for writing, unless the session is local or there is none. The response and the
// outcomes are one answer, of bounded length (package exact), and so come whole or not at all.
func (l *Line) respond(r *jute.ConnectResponse) {
	b, mark := jute.BeginFrame(nil)
	b = r.Append(b)
	var replies []datatree.Outcome
	if l.extended {
		var ext jute.ExtensionResponse
		if r.SessionID != 0 {
			ext, replies = l.grant(r.SessionID)
		}
		b = ext.Append(b)
	}
	l.put(jute.EndFrame(b, mark))
	for i := range replies {
		l.sendOutcome(&replies[i])
	}
}

// offered are the extensions of the protocol that this version of zkd has.
const offered = jute.FeatureExactlyOnce | jute.FeatureFeed | jute.FeaturePaging | jute.FeatureOperations

// grant decides which of the extensions that the client has asked for its connection gets. It
// returns what the client is told, and the outcomes that it has not confirmed.
func (l *Line) grant(id jute.SessionID) (ext jute.ExtensionResponse, replies []datatree.Outcome) {
	tree := l.lines.State.Tree
	l.granted = l.asked.Features & offered
	if l.lines.History == nil {
		l.granted &^= jute.FeatureFeed
	}
	if l.local.Load() || !tree.ExactlyOnce(id) {
		l.granted &^= jute.FeatureExactlyOnce
	}
	ext.Features = l.granted
	if l.granted&jute.FeatureExactlyOnce == 0 {
		return ext, nil
	}
	replies = l.lines.outcomes(l, id)
	if n := len(replies); n > 0 {
		ext.Done = replies[n-1].Number
	}
	if doneBehind.Planted() {
		ext.Done--
	}
	first := slices.IndexFunc(replies, func(o datatree.Outcome) bool {
		unknown := o.Number > l.asked.Confirmed
		return unknown || confirmedReplayed.Planted()
	})
	if notReplayed.Planted() {
		first = -1
	}
	if first < 0 {
		return ext, nil
	}
	ext.Replies = int32(len(replies) - first)
	return ext, replies[first:]
}

// sendOutcome sends the reply to a write of an earlier connection of the session.
func (l *Line) sendOutcome(o *datatree.Outcome) {
	if outcomesCut.Planted() && l.tooSlow() {
		return
	}
	b, mark := jute.BeginFrame(nil)
	h := jute.ReplyHeader{Xid: exact.Xid(o.Number), Zxid: o.Zxid, Err: o.Code}
	l.put(jute.EndFrame(append(h.Append(b), o.Body...), mark))
}
