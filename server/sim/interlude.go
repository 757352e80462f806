package sim

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line/pending"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/replica"
)

// interlude is the state of a node whose clients wait for a service.
type interlude struct {
	ends   uint64 // when their connections end, in ms of the node's clock; 0 if none waits
	before bool   // the applier knows that a service has ended, and of no fence since
}

// endService begins an interlude.
func (s *Sim) endService(n *node) {
	s.stats.Interludes++
	n.serving = false
	if n.interlude.ends == 0 {
		n.interlude.ends = n.localMs() + s.cfg.InterludeMs
	}
	s.checkInterlude(n)
}

// membersZxid returns the zxid of the list of members that a node has applied.
func (n *node) membersZxid() jute.Zxid {
	if n.state.Members == nil {
		return 0
	}
	return n.state.Members.Version
}

// checkInterlude ends the connections that have waited for too long for a service.
func (s *Sim) checkInterlude(n *node) {
	service := n.rep.Service()
	if n.interlude.ends == 0 || n.localMs() < n.interlude.ends {
		return
	}
	n.interlude.ends = 0
	s.endConns(n, func(c *conn) bool { return !n.serving || c.pending.Service != service })
}

// endConns ends the connections that satisfy a condition.
func (s *Sim) endConns(n *node, ends func(*conn) bool) {
	for _, c := range slices.Clone(n.conns) {
		if ends(c) {
			s.endConn(n, c)
		}
	}
}

// beginInterlude ends the connections that can't wait for the next service.
func (s *Sim) beginInterlude(n *node) {
	n.interlude.before = true
	s.endConns(n, func(c *conn) bool { return !c.pending.Survives() })
}

// beforeApply answers requests whose answers were lost, before the transaction of a later request
// of the connection is applied.
func (s *Sim) beforeApply(n *node, txn *datatree.Txn) {
	if !n.interlude.before || replica.ServerOf(txn.Origin) != n.id || s.cfg.Mutant == MutantNotPassed {
		return
	}
	for {
		c := n.conn(txn.Origin)
		if c == nil || c.pending.Len() == 0 {
			return
		}
		switch c.pending.Overtaken(txn.Cxid) {
		case pending.Passed:
			s.stats.Passed++
			p := c.pending.Front()
			p.ready, p.zxid = true, n.applied
			s.answer(n, c)
			continue
		case pending.Refused:
			s.stats.LostRefusal++
			s.endConn(n, c)
		}
		return
	}
}

// endInterlude submits the waiting requests of earlier services again.
func (s *Sim) endInterlude(n *node, service uint64) {
	n.interlude.before = false
	if n.serving && service == n.rep.Service() {
		n.interlude.ends = 0
	}
	s.endConns(n, func(c *conn) bool {
		owns := n.tree.SessionOwner(c.session) == c.origin || s.cfg.Mutant == MutantUnownedKept
		return c.pending.Service < service && (!owns || !c.pending.Repeatable(uint64(n.membersZxid())) && s.cfg.Mutant != MutantChangeAgain)
	})
	for _, c := range n.conns {
		if c.pending.Service >= service {
			continue
		}
		s.stats.Kept++
		from := len(n.inbox)
		c.pending.Again(service, func(w *waiting) {
			s.stats.Again++
			if s.cfg.Mutant != MutantNotAgain {
				s.hand(n, n.submission(c, w, service))
			}
		})
		if s.cfg.Mutant == MutantAgainBackwards {
			slices.Reverse(n.inbox[from:])
		}
	}
	if len(n.inbox) > 0 {
		n.again = true
	}
}
