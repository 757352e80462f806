package sim

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/zab"
)

// hearsay is what a leader knows of the clients of another node, in ms of its own
// clock: touches before upTo were reported, and later than until the node answers
// nobody alone.
type hearsay struct{ upTo, until int64 }

// lateAfter is for how long a session may be silent and be answered without the
// leader, in ms.
func lateAfter(timeoutMs int32) int64 { return int64(timeoutMs) / 3 * 2 }

// knownUpTo is up to when the leader has to know all touches, in ms behind the last
// that it knows. Clocks differ.
func knownUpTo(timeoutMs int32) int64 { return int64(timeoutMs) / 4 * 3 }

// arrive notes that a client was heard of, and says whether the node may answer it
// alone.
func (s *Sim) arrive(n *node, c *conn) (alone bool) {
	now, last := int64(n.localMs()), c.touchedMs
	c.touchedMs, c.touchedAt = now, s.now
	if n.evaluator != nil {
		if !n.tracker.Touch(c.session, now, c.timeout) {
			return false
		}
		s.noteHeard(n, c.session, s.now)
	}
	return now < int64(n.core.AnswersUntil()) && now-last < lateAfter(c.timeout) || s.cfg.Mutant == MutantNoLease
}

// hasFence reports whether a request waits for the leader's word that could be
// answered without.
func (c *conn) hasFence() bool {
	for i := range c.pending {
		if c.pending[i].req.fenced {
			return true
		}
	}
	return false
}

// hearOf touches the session of a request at the leader, and reports whether it was
// not too late for that.
func (s *Sim) hearOf(n *node, req *evaluate.Request) bool {
	t := n.tracker.Get(req.Session)
	if t == nil {
		return true
	}
	if !t.Touch(int64(n.localMs()), t.TimeoutMs()) {
		return false
	}
	s.noteHeard(n, req.Session, s.now)
	return true
}

// reportTouches tells the leader which sessions were heard of.
func (s *Sim) reportTouches(n *node) {
	ended := n.ended
	n.ended = nil
	if n.status.Role != zab.Following && n.status.Role != zab.SyncingFollower {
		return
	}
	m := &shellMsg{kind: shellTouches, beat: n.core.Beat()}
	now := int64(n.localMs())
	for _, list := range [][]*conn{n.conns, ended} {
		for _, c := range list {
			if c.touchedMs != c.reported {
				c.reported = c.touchedMs
				m.touches = append(m.touches, touch{session: c.session, timeout: c.timeout, ageMs: now - c.touchedMs, at: c.touchedAt})
			}
		}
	}
	s.tell(n, n.status.Leader, n.status.LeaderGen, m)
}

func (s *Sim) hearTouches(n *node, from zab.SID, m *shellMsg) {
	if n.tracker == nil || n.evaluator == nil {
		return
	}
	now := int64(n.localMs())
	for _, t := range m.touches {
		if n.tracker.Touch(t.session, now-t.ageMs, t.timeout) {
			s.noteHeard(n, t.session, t.at)
		}
	}
	n.hearsay[from-1].upTo = int64(n.core.BeatTime(m.beat))
}

// cutSession ends the connections of a session that has expired: there is a second
// one when the client came back before its end of the first was known to be gone.
func (s *Sim) cutSession(n *node, id jute.SessionID) {
	n.conns = slices.DeleteFunc(n.conns, func(c *conn) bool {
		if c.session == id {
			s.cutConn(n, c)
		}
		return c.session == id
	})
}

// holds says for a leader which sessions must not expire yet.
func (s *Sim) holds(n *node) session.Hold {
	if s.cfg.Mutant == MutantNoHold {
		return nil
	}
	return func(owner uint64, deadline int64, timeoutMs int32) bool {
		at := zab.SID(owner >> 56)
		if owner == 0 || at == n.id {
			return false
		}
		h := &n.hearsay[at-1]
		return h.upTo < deadline-int64(timeoutMs)+knownUpTo(timeoutMs) && int64(n.localMs()) < h.until+int64(timeoutMs)
	}
}

// lostLink makes up for the reports that were lost with a link to a leader.
func (s *Sim) lostLink(n *node, peer zab.SID) {
	if n.tracker != nil && n.evaluator != nil {
		n.tracker.TouchOwned(func(owner uint64) bool { return zab.SID(owner>>56) == peer }, n.hearsay[peer-1].until)
	}
}

// promise notes that a client was answered and takes its session for alive, until
// the timeout after it had asked: S6. With the answer to a resumption another timeout may
// count than before. What comes on a connection that its client has given up it does not
// hear.
func (s *Sim) promise(n *node, c *conn, kind reqKind, sent uint64) {
	g, id := &s.ghost, c.session
	if s.clients[c.client].attempt != c.attempt {
		return
	}
	until := sent + s.shortest(c.timeout)
	if kind != reqResume {
		until = max(until, g.kept[id])
	}
	g.kept[id] = until
	if at, ok := g.expired[id]; ok && at < until {
		s.fail("S6", "server %d answers session %v, which expired %d ms ago, %d ms after it was asked", n.id, id, (s.now-at)/1000, (s.now-sent)/1000)
	}
}

// relinquish notes that a client asks for another timeout. It may take effect although
// the client never hears the answer: the client can't count on more than that from now on.
func (s *Sim) relinquish(id jute.SessionID, timeoutMs int32) {
	if until, ok := s.ghost.kept[id]; ok {
		s.ghost.kept[id] = min(until, s.now+s.shortest(timeoutMs))
	}
}

// checkKept checks that a session which expires was not promised to its client: S6.
func (s *Sim) checkKept(id jute.SessionID) {
	s.ghost.expired[id] = s.now
	if until, ok := s.ghost.kept[id]; ok && s.now < until {
		s.fail("S6", "session %v expires %d ms before the time that its client was promised", id, (until-s.now)/1000)
	}
}

// shortest is how long a session with a timeout has to live after a sign of life, in µs.
// Clocks that run too fast or too slow count at the client's server, at the one before
// and at the leader.
func (s *Sim) shortest(timeoutMs int32) uint64 {
	return uint64(timeoutMs)*10*uint64(100-3*s.cfg.SkewPct) - 3000
}
