package sim

import (
	"cmp"
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/replica"
)

// ghostTouch is a touch in a report: when a session was last heard of.
type ghostTouch struct {
	session jute.SessionID
	timeout int32  // of its connection, ms
	at      uint64 // µs
}

// arrive records that a client was heard of, and reports whether the node may answer it
// without the leader.
func (s *Sim) arrive(n *node, c *conn) (alone bool) {
	now, last := int64(n.localMs()), c.touchedMs
	c.touchedMs, c.touchedAt = now, s.now
	lives := n.tracker.Touch(c.session, now, c.timeout)
	if lives && n.leading() {
		s.noteTouch(n, c.session, c.timeout, s.now)
	}
	return lives && now < n.rep.AnswersUntil() && now-last < replica.LateAfter(c.timeout)
}

// hasBarrier reports whether a request waits for the leader's confirmation although a node
// could answer it alone.
func (c *conn) hasBarrier() bool {
	return slices.ContainsFunc(c.pending.All(), func(w waiting) bool { return w.req.barrier })
}

// reportTouches tells the leader which sessions were heard of.
func (s *Sim) reportTouches(n *node) {
	now := int64(n.localMs())
	if !n.rep.Follows() {
		i, leads := -1, n.rep.Leads()
		kept := n.gone[:0]
		n.register.DropEnded(func(t register.LastTouch) bool {
			i++
			if leads || t.Useless(now) || s.cfg.Mutant == MutantTouchesForgotten {
				return true
			}
			kept = append(kept, n.gone[i])
			return false
		})
		n.gone = kept
		return
	}
	live, ended := n.register.LiveAndEnded()
	if s.cfg.Mutant == MutantReportTwice && len(n.conns) > 0 && s.percent(30) {
		s.endConn(n, n.conns[s.rng.IntN(len(n.conns))])
		live, _ = n.register.LiveAndEnded()
	}
	gone := n.gone
	n.gone = nil
	slices.SortFunc(live, func(a, b *conn) int { return cmp.Compare(a.origin, b.origin) })
	var touches []replica.Touch
	n.telling = nil
	for _, c := range live {
		if c.touchedMs != c.reported {
			c.reported = c.touchedMs
			touches = append(touches, replica.Touch{Session: c.session, TimeoutMs: c.timeout, AgeMs: now - c.touchedMs})
			n.telling = append(n.telling, ghostTouch{c.session, c.timeout, c.touchedAt})
		}
	}
	for i, t := range ended {
		touches = append(touches, replica.Touch{Session: t.Session, TimeoutMs: t.TimeoutMs, AgeMs: now - t.At})
		n.telling = append(n.telling, gone[i])
	}
	n.rep.ReportTouches(touches)
}

// closeSession ends the connections of a closed session, except the one that requested it.
// There is a second connection if the client came back before the end of the first was
// known.
func (s *Sim) closeSession(n *node, id jute.SessionID, origin uint64) {
	for _, c := range slices.Clone(n.conns) {
		if c.session == id && c.origin != origin {
			s.endConn(n, c)
		}
	}
}

// promise records that a client was answered and counts on its session until the timeout
// after its request: S6. The answer to a resumption may change the timeout. A client does
// not receive answers on a connection that it has given up.
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
	s.ghost.expired[id] = s.now
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
