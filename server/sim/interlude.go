package sim

import "time"

// endService begins an interlude.
func (s *Sim) endService(n *node) {
	s.stats.Interludes++
	fenced := n.lines.Fenced() == n.service
	if fenced || n.waitFrom == 0 {
		n.waitFrom = n.localMs()
	}
	n.interlude.Begin(n.localTime(), time.Duration(s.cfg.InterludeMs)*time.Millisecond, fenced)
	n.service = 0
	s.checkInterlude(n)
}

// checkInterlude ends the connections that have waited for too long for a service.
func (s *Sim) checkInterlude(n *node) {
	fenced := n.service != 0 && n.lines.Fenced() == n.service
	over := n.interlude.Over(n.localTime(), fenced)
	if over {
		n.lines.EndEarlier(n.service)
	}
	if over || fenced {
		n.waitFrom = 0
	}
	s.checkWaiting(n)
}

// checkWaiting checks that no connection waits for longer than an interlude: L5.
func (s *Sim) checkWaiting(n *node) {
	waited := n.localMs() - n.waitFrom
	if n.waitFrom == 0 || waited <= s.cfg.InterludeMs {
		return
	}
	for _, c := range n.conns {
		if earlier := n.service == 0 || c.origin < n.service; earlier && !c.killed && c.line.WantsSession() {
			s.fail("L5", "connection %#x has waited for %d ms for a service of server %d", c.origin, waited, n.id)
		}
	}
}
