package sim

import "time"

// endService begins an interlude.
func (s *Sim) endService(n *node) {
	s.stats.Interludes++
	length := time.Duration(s.cfg.InterludeMs) * time.Millisecond
	n.interlude.Begin(n.localTime(), length, n.lines.Fenced() == n.service)
	n.service = 0
	s.checkInterlude(n)
}

// checkInterlude ends the connections that have waited for too long for a service.
func (s *Sim) checkInterlude(n *node) {
	if n.interlude.Over(n.localTime(), n.service != 0 && n.lines.Fenced() == n.service) {
		n.lines.EndEarlier(n.service)
	}
}
