package sim

import (
	"cmp"
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/replica"
)

// ghostTouch is a touch in a report: when a session was last heard of.
type ghostTouch struct {
	session jute.SessionID
	timeout int32  // of its connection, ms
	at      uint64 // µs
}

// reportTouches tells the leader which sessions were heard of.
func (s *Sim) reportTouches(n *node) {
	now := int64(n.localMs())
	switch {
	case n.rep.Leads():
		n.lines.ForgetTouches()
		return
	case !n.rep.Follows():
		n.lines.KeepTouches(now)
		return
	}
	touches := n.lines.Touches(nil, now)
	slices.SortFunc(touches, func(a, b replica.Touch) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.AgeMs, b.AgeMs))
	})
	n.telling = nil
	for _, t := range touches {
		n.telling = append(n.telling, ghostTouch{t.Session, t.TimeoutMs, s.now - min(s.now, n.localUs(uint64(t.AgeMs)))})
	}
	n.rep.ReportTouches(touches)
}

// promise records that a client was answered and counts on its session until the timeout
// after its request: S6. The answer to a resumption may change the timeout. A client does
// not receive answers on a connection that it has given up.
func (s *Sim) promise(n *node, c *conn, kind reqKind, sent uint64) {
	g, id := &s.ghost, c.line.SessionID()
	if s.clients[c.client].attempt != c.attempt || c.line.Session.Local() && g.upgraded[id] > 0 {
		return
	}
	until := sent + s.shortest(c.line.Session.TimeoutMs())
	if kind != reqResume {
		until = max(until, g.kept[id])
	}
	g.kept[id] = until
	if at, ok := g.expired[id]; ok && at < until {
		s.fail("S6", "server %d answers session %v, which expired %d ms ago, %d ms after it was asked", n.id, id, (s.now-at)/1000, (s.now-sent)/1000)
	}
}

// relinquish records that a client asks for another timeout. It may take effect although
// the client never receives the answer: from now on the client can't count on a longer
// timeout.
func (s *Sim) relinquish(id jute.SessionID, timeoutMs int32) {
	if until, ok := s.ghost.kept[id]; ok {
		s.ghost.kept[id] = min(until, s.now+s.shortest(timeoutMs))
	}
}

// checkKept checks that the expiry of a session breaks no promise to its client: S6.
func (s *Sim) checkKept(id jute.SessionID) {
	if until, ok := s.ghost.kept[id]; ok && s.now < until {
		s.fail("S6", "session %v expires %d ms before the time that its client was promised", id, (until-s.now)/1000)
	}
}

// shortest returns the minimum life of a session with the given timeout after a sign of
// life, in µs. It accounts for the clock skew of the client's server, of the previous one
// and of the leader.
func (s *Sim) shortest(timeoutMs int32) uint64 {
	return uint64(timeoutMs)*10*uint64(100-3*s.cfg.SkewPct) - 3000
}
