package line

import (
	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// Extend notes which extensions the client asks for, before Lines.Admit.
func (l *Line) Extend(asked jute.ExtensionRequest) {
	l.wanted, l.asked = true, asked
	l.asked.Holder = max(asked.Holder, 0) // negative xids are the servers' own
}

// Refuse tells the client that its session no longer exists, and ends the connection.
func (l *Line) Refuse(readOnly bool) { l.refuse(readOnly, false) }

// refuse is Refuse, or tells the client that its session has moved to another one.
func (l *Line) refuse(readOnly, moved bool) {
	l.respond(&jute.ConnectResponse{Password: make([]byte, jute.PasswordLen), HasReadOnly: readOnly, ReadOnly: l.readOnly}, moved)
	l.Outbox.End(true)
}

// respond tells the client which session it has, and which extensions if it asked. The
// tree is locked for writing, unless the session is local or there is none. The response and the
// outcomes are one answer, of bounded length (package exact), and so come whole or not at all. moved: there is
// none because it has moved.
func (l *Line) respond(r *jute.ConnectResponse, moved bool) {
	b, mark := jute.BeginFrame(nil)
	b = r.Append(b)
	var replies []datatree.Outcome
	if l.wanted {
		var ext jute.ExtensionResponse
		if r.SessionID != 0 {
			ext, replies = l.grantFor(r.SessionID)
		}
		if moved {
			ext.Features = jute.FeatureMoved
		}
		b = ext.Append(b)
	}
	l.Outbox.put(jute.EndFrame(b, mark))
	for i := range replies {
		l.sendOutcome(&replies[i])
	}
}

// grantFor decides about the extensions of a connection with a session.
func (l *Line) grantFor(id jute.SessionID) (jute.ExtensionResponse, []datatree.Outcome) {
	var without jute.Features
	var outcomes []datatree.Outcome
	if l.lines.History == nil {
		without |= jute.FeatureFeed
	}
	if l.Session.Local() {
		without |= jute.FeatureMoved
	}
	if !l.Session.Local() && l.lines.State.Tree.ExactlyOnce(id) {
		outcomes = l.lines.outcomes(l, id)
	} else {
		without |= jute.FeatureExactlyOnce
	}
	return l.grant(without, outcomes)
}

// sendOutcome sends the reply to a write of an earlier connection of the session.
func (l *Line) sendOutcome(o *datatree.Outcome) {
	if outcomesCut.Planted() && l.Outbox.tooSlow() {
		return
	}
	b, mark := jute.BeginFrame(nil)
	h := jute.ReplyHeader{Xid: exact.Xid(o.Number), Zxid: o.Zxid, Err: o.Code}
	l.Outbox.put(jute.EndFrame(append(h.Append(b), o.Body...), mark))
}
