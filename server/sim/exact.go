package sim

import (
	"slices"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// A client of exactly-once sessions numbers its requests by their cxids. The invariants: E1, each of
// its writes is done at most once, and in their order; E2, none is left out unless it was refused;
// E3, the client learns of each what became of it; E4, a write that its connection numbers has the
// number in the history.

// exactGhost is what no server can know of an exactly-once session.
type exactGhost struct {
	issued   []int32                    // writes that the client has made and that are not decided
	outcomes map[int32]datatree.Outcome // of those that are done
}

func (g *ghost) exactOf(id jute.SessionID) *exactGhost {
	e := g.exact[id]
	if e == nil {
		e = &exactGhost{outcomes: make(map[int32]datatree.Outcome)}
		g.exact[id] = e
	}
	return e
}

// wantsExact reports whether a client asks for exactly-once sessions.
func (s *Sim) wantsExact(c *client) bool {
	return s.cfg.Exact > 0 && c.id%s.cfg.Exact == 0 && !s.behindEdge(c)
}

// covered reports whether a request is a write that is done exactly once.
func (r *request) covered() bool { return r.kind == reqWrite && exact.Covers(r.op) }

// number completes a request of a client with an exactly-once session.
func (s *Sim) number(c *client, req *request) {
	if !c.exact || !req.covered() {
		return
	}
	req.confirmed = c.confirmed()
	e := s.ghost.exactOf(c.session)
	e.issued = append(e.issued, req.cxid)
}

// confirmed returns the number up to which the client knows what became of its requests.
func (c *client) confirmed() int64 {
	least := c.cxid
	for _, list := range [][]request{c.inFlight, c.under} {
		for i := range list {
			least = min(least, list[i].cxid)
		}
	}
	return int64(least) - 1
}

// keep keeps the requests under way for the next connection.
func (c *client) keep() {
	if !c.exact {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(c.inFlight), func(req request) bool {
		return !req.covered() && req.kind != reqSync && (req.kind != reqRead || req.path != "")
	})
	c.under = append(kept, c.under...)
}

// reattached decides what became of the requests under way, and sends again what was not done: all at
// once, or one after the other where leaders let few requests wait.
func (s *Sim) reattached(c *client, r *reply) {
	under := c.under
	c.under = nil
	if c.exact = r.exact && r.by == nil; !c.exact {
		return
	}
	if resentBackwards.Planted() {
		slices.Reverse(under)
	}
	for _, req := range under {
		number := int64(req.cxid)
		i := slices.IndexFunc(r.outcomes, func(o datatree.Outcome) bool { return o.Number == number })
		fate := exact.FateOf(number, req.covered(), r.done, i >= 0)
		done, isDone := s.ghost.exactOf(c.session).outcomes[req.cxid]
		switch {
		case !req.covered():
		case fate == exact.Answered:
			s.stats.Replayed++
			c.writes++
			if !isDone || done != r.outcomes[i] {
				s.fail("E3", "client %d is told that write %d had outcome %+v; it had %+v", c.id, req.cxid, r.outcomes[i], done)
			}
			c.seen = max(c.seen, done.Zxid)
		case isDone:
			s.fail("E3", "client %d is not told that its write %d is done (%v): done %d, %d outcomes", c.id, req.cxid, done.Zxid, r.done, len(r.outcomes))
		case fate == exact.Refused && !s.refuses():
			s.fail("E2", "client %d concludes that its write %d was refused: done %d", c.id, req.cxid, r.done)
		}
		if fate == exact.Again {
			c.under = append(c.under, req)
		}
	}
	for s.resend(c) && s.cfg.Waiting == 0 {
	}
}

// resend sends the oldest request of earlier connections again, and reports whether there was one.
func (s *Sim) resend(c *client) bool {
	if len(c.under) == 0 || c.node < 0 {
		return false
	}
	s.stats.Resent++
	req := c.under[0]
	req.origin, req.attempt, req.seen, req.floor, req.sent = c.origin, c.attempt, c.seen, s.ghost.acked, s.now
	if req.covered() {
		req.confirmed = c.confirmed()
	}
	c.under = c.under[1:]
	if len(c.inFlight) == 0 {
		c.asked = s.now
	}
	c.inFlight = append(c.inFlight, req)
	s.afterPacket(evToServer, s.nodes[c.node], s.transit(), &packet{to: c.node, client: c.id, req: req})
	return true
}

// refuses reports whether writes can be refused without a transaction.
func (s *Sim) refuses() bool { return s.cfg.refuses() || s.cfg.BadPct+s.cfg.FatalPct > 0 }

// checkNumber checks a transaction against the writes that the client of its session has made.
func (s *Sim) checkNumber(txn *datatree.Txn) {
	g := &s.ghost
	if txn.Number == 0 {
		wrote := txn.Err == 0 && len(txn.Ops) > 0 && txn.Ops[0].Kind < datatree.OpCreateSession && txn.Ops[0].Kind != datatree.OpNone
		if wrote && g.exactConns[txn.Origin] {
			s.fail("E4", "a write of connection %#x has no number: %s", txn.Origin, describeTxn(txn))
		}
		return
	}
	if !g.sessions[txn.Session] {
		return // refused, as the session has ended
	}
	e, xid := g.exactOf(txn.Session), exact.Xid(txn.Number)
	i := slices.Index(e.issued, xid)
	switch {
	case i < 0:
		s.fail("E1", "write %d of session %v is done again, or after a later one: %s", xid, txn.Session, describeTxn(txn))
	case i > 0 && !s.refuses():
		s.fail("E2", "write %d of session %v is done, and %v were not: %s", xid, txn.Session, e.issued[:i], describeTxn(txn))
	}
	e.issued = e.issued[i+1:]
	if list := g.tree.Outcomes(txn.Session); len(list) > 0 {
		e.outcomes[xid] = list[len(list)-1]
	}
}
