package sim

// interlude is the state of a node whose clients wait for a service.
type interlude struct {
	ends uint64 // when their connections end, in ms of the node's clock; 0 if none waits
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

// checkInterlude ends the connections that have waited for too long for a service.
func (s *Sim) checkInterlude(n *node) {
	service := n.rep.Service()
	switch {
	case n.interlude.ends == 0:
	case n.serving && n.lines.Fenced() == service:
		n.interlude.ends = 0
	case n.localMs() >= n.interlude.ends:
		n.interlude.ends = 0
		if !n.serving {
			service = 0
		}
		n.lines.EndEarlier(service)
	}
}
