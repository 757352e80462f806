package sim

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/replica"
)

// ghostTouch is when a session was heard of, which a report tells.
type ghostTouch struct {
	session jute.SessionID
	timeout int32  // of its connection, ms
	at      uint64 // µs
}

// arrive notes that a client was heard of, and says whether the node may answer it
// alone.
func (s *Sim) arrive(n *node, c *conn) (alone bool) {
	now, last := int64(n.localMs()), c.touchedMs
	c.touchedMs, c.touchedAt = now, s.now
	lives := n.tracker.Touch(c.session, now, c.timeout)
	if lives && n.leading() {
		s.noteTouch(n, c.session, c.timeout, s.now)
	}
	return lives && now < n.rep.AnswersUntil() && now-last < replica.LateAfter(c.timeout)
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

// reportTouches tells the leader which sessions were heard of.
func (s *Sim) reportTouches(n *node) {
	ended := n.ended
	n.ended = nil
	if !n.rep.Follows() {
		return
	}
	var touches []replica.Touch
	n.telling = nil
	now := int64(n.localMs())
	for _, list := range [][]*conn{n.conns, ended} {
		for _, c := range list {
			if c.touchedMs != c.reported {
				c.reported = c.touchedMs
				touches = append(touches, replica.Touch{Session: c.session, TimeoutMs: c.timeout, AgeMs: now - c.touchedMs})
				n.telling = append(n.telling, ghostTouch{c.session, c.timeout, c.touchedAt})
			}
		}
	}
	n.rep.ReportTouches(touches)
}

// closeSession ends the connections of a session that is closed, but for the one that
// asked for it. There is a second one when the client came back before the end of the
// first was known.
func (s *Sim) closeSession(n *node, id jute.SessionID, origin uint64) {
	for _, c := range slices.Clone(n.conns) {
		if c.session == id && c.origin != origin {
			s.endConn(n, c)
		}
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
