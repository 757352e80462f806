package line

import (
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
)

// A local session is known only to its server. It costs the ensemble nothing, and owns no
// ephemerals. Clients get one where local sessions are configured, where a server without a leader
// serves read-only clients, and while the disk is full; and visitors, which keep it: see Line.Visit.

// Locally reports whether a session is opened or resumed by this server alone. id is 0 for a new one.
func (l *Line) Locally(id jute.SessionID) bool {
	if id == 0 {
		return l.lines.LocalSessions || l.readOnly || l.visits
	}
	return l.lines.isLocal(id) || l.readOnly
}

// isLocal reports whether a session is one of this server alone: no line has asked the leader to make it a global one. Until
// that is decided its owner is that line. Others may have the session before this server knows, and a request by which it still
// is a local one would be done for a session that has moved, or ended.
func (s *Lines) isLocal(id jute.SessionID) bool {
	local := s.Locals.Get(id)
	return local != nil && !undecided(local)
}

// undecided reports whether a line has asked the leader to make a local session a global one.
func undecided(local *session.Session) bool {
	owned := local.Owner() != 0
	return owned && !undecidedResumed.Planted()
}

// openUnlogged opens a local session for a client that asked for an ordinary one, while
// the disk has no room to log that one. When there is room again, it becomes an ordinary
// session with its first ephemeral. The tree is locked.
func (a *Answers) openUnlogged(l *Line, readOnly bool) {
	id := a.Server.NextSession()
	a.Locals.Add(id, l.Session.timeoutMs, l.Session.touched.Load())
	if !l.OpenLocal(id, readOnly, l.Session.touched.Load(), a.end) {
		a.end(l)
	}
}

// OpenLocal makes l the line of a local session, and puts the response into the buffer. It calls end
// with the line that had the session before. It returns false if the session has just expired, or if that line
// has just asked the leader to make it a global one: l has to end then. now is in ms.
func (l *Line) OpenLocal(id jute.SessionID, readOnly bool, now int64, end func(*Line)) bool {
	s := l.lines
	local := s.Locals.Get(id)
	if local == nil || !s.Locals.Renew(id, l.Session.timeoutMs, now) {
		return false
	}
	if old := s.Register.Claim(id, l); old != nil && old != l {
		end(old)
	}
	l.Session.establish(id, local, true)
	if undecided(local) {
		return false
	}
	password := s.State.Keys().Password(id)
	l.respond(&jute.ConnectResponse{TimeoutMs: l.Session.timeoutMs, SessionID: id, Password: password[:], HasReadOnly: readOnly, ReadOnly: l.readOnly}, false)
	return true
}

// closeLocal closes a local session at its client's request.
func (r *read) closeLocal() {
	id := r.l.SessionID()
	if !localKept.Planted() {
		r.Locals.Remove(id)
		r.Register.Release(id)
	}
	r.reply(r.req.Xid, r.zxid, 0)
	r.l.endSession()
}

// ExpireLocals closes the local sessions whose clients have not been heard of in time, calls expired for
// each, and ends their connections.
func (s *Lines) ExpireLocals(now int64, expired func(jute.SessionID)) {
	for _, id := range s.Locals.Expire(now, nil) {
		expired(id)
		s.Locals.Remove(id)
		if l := s.Register.Release(id); l != nil {
			l.host.Kill()
		}
	}
}

// EndLocals ends the local sessions, with their connections: there is a leader, or the state is wrong.
func (s *Lines) EndLocals() {
	for _, l := range s.Register.All() {
		if l.Session.Local() {
			s.Locals.Remove(l.SessionID())
			l.host.Kill()
		}
	}
}

// Upgrades reports whether the local session has to become a global one before a request: it
// creates an ephemeral, and the configuration allows that. Where local sessions are
// not configured, this one is local only because the disk was full.
func (l *Line) Upgrades(req *Request) bool {
	allowed := !l.visits && (l.lines.Upgrading || !l.lines.LocalSessions)
	allowed = allowed || visitorUpgraded.Planted()
	needed := l.Session.Local() && allowed && req.Ephemerals() > 0
	return needed && !notUpgraded.Planted()
}

// Upgrade returns what asks the leader to make the local session a global one. The reader waits for
// Host.Decided: the session is then global, or still local if that was refused, and the
// request that needed it belongs to that session. ok is false if another line has the session now, and l ends.
//
// Upgrade owns the session before it looks whether another line has claimed it, and OpenLocal claims it before it looks
// whether it is owned: of two at the same time at least one fails.
func (l *Line) Upgrade(at time.Duration) (sub replica.Submission, ok bool) {
	local := l.Session.tracked.Load()
	if !local.Own(l.id) {
		return sub, false
	}
	claimed := l.lines.Register.OfSession(l.SessionID()) != l
	claimed = claimed && !claimedUpgraded.Planted()
	if claimed {
		local.Disown(l.id)
		return sub, false
	}
	service := l.Waiting.push(Request{Op: jute.OpCreateSession, Xid: replica.UpgradeXid, Received: at, ordered: true, own: upgradesOwn})
	return replica.Submission{
		Kind:     replica.Write,
		Service:  service,
		Received: at,
		Request: evaluate.Request{Op: jute.OpCreateSession, Session: l.SessionID(), Origin: l.id, Cxid: replica.UpgradeXid,
			TimeoutMs: l.Session.timeoutMs},
	}, true
}

// sessionOpened is called when the creation of a session is applied. The line that had it as a local
// session has a global one from then on.
func (a *Answers) sessionOpened(id jute.SessionID) {
	if !a.Locals.Remove(id) {
		return
	}
	if l := a.Register.OfSession(id); l != nil {
		l.Session.becomesGlobal(a.Sessions.Get(id))
	}
}
