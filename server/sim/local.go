package sim

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/replica"
)

// Local sessions: in some runs only its server knows a new session, and in the others one that is opened
// while the disk is full. A client that comes to another server with it is told that it has expired.

// openLocal opens or resumes a local session.
func (s *Sim) openLocal(c *conn, req *request) {
	id, now, locals := req.session, int64(c.n.localMs()), c.n.lines.Locals
	if id == 0 {
		id = jute.SessionID(c.origin)
		locals.Add(id, req.timeout, now)
		s.stats.Locals++
	}
	var old *line.Line
	if !c.line.OpenLocal(id, true, now, func(l *line.Line) { old = l }) {
		c.Kill()
	}
	if old != nil {
		old.Host().Kill()
	}
	c.flush()
}

// upgradeFor has the leader make the session a global one, before a request. Its reader waits for that.
func (s *Sim) upgradeFor(c *conn, req request, r *line.Request) {
	sub, ok := c.line.Upgrade(r.Received)
	if !ok {
		c.Kill()
		return
	}
	s.stats.Upgrades++
	c.upgrade = &req
	s.hand(c.n, sub)
	s.ghost.asks(c.origin, ask{replica.UpgradeXid, true})
	s.takeOutputs(c.n)
}

// upgraded handles the request that has waited for an upgrade, and those after it.
func (c *conn) upgraded() {
	req, s, life := c.upgrade, c.n.s, c.n.life
	if c.upgrade = nil; c.line.Outbox.Ends() {
		return
	}
	r := req.wire(false)
	r.Received = c.n.localTime()
	s.submitTo(c.n, c, req, &r)
	for len(c.behind) > 0 && c.upgrade == nil && !c.line.Outbox.Ends() && c.n.alive && c.n.life == life {
		next := c.behind[0]
		c.behind = c.behind[1:]
		s.handle(c.n, c, &next)
	}
}

// checkLocal checks that a server that answers a connection of a local session does not know that
// the session is a global one: S9.
func (s *Sim) checkLocal(n *node, c *conn) {
	if _, global := n.tree.Session(c.line.SessionID()); global {
		s.fail("S9", "server %d answers connection %#x as one of a local session, and session %v is global", n.id, c.origin, c.line.SessionID())
	}
}

// lives reports whether the ensemble has a session, and had it at a time: a local one may become global
// while its client is told that it has ended.
func (g *ghost) lives(id jute.SessionID, at uint64) bool {
	return g.sessions[id] && g.upgraded[id] <= at
}

// localExpired checks the expiry of a local session, unless it has become a global one meanwhile: S6.
func (s *Sim) localExpired(id jute.SessionID) {
	if _, global := s.ghost.sessions[id]; !global {
		s.checkKept(id)
	}
}
