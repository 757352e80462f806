package sim

import "github.com/zkd-project/zkd/server/zab"

// In some runs work takes time. A node that has evaluated requests is busy: what its loop would hear, heartbeats as well,
// waits, while its clients' readers and its applier continue. Applying takes time, too, and later entries wait.

// work makes a node busy with the evaluation of a turn. The next turn begins with all that has come meanwhile.
func (s *Sim) work(n *node) {
	if units, _ := n.rep.Work(); n.alive && s.cfg.WorkUs > 0 && units > 0 {
		n.busyUntil = s.now + uint64(units)*s.cfg.WorkUs
		s.stats.Busy++
		if !n.lazy {
			n.lazy = true
			s.after(evDrain, n, n.busyUntil-s.now+1)
		}
	}
}

// waits reports whether an event waits for the loop of a node that is busy. If so, it comes again.
func (s *Sim) waits(n *node, e *event) bool {
	if s.now >= n.busyUntil {
		return false
	}
	switch e.kind {
	case evTick, evDeliver, evSynced, evDrain, evLogRead, evSnapStep, evDrained, evXfer, evSnapGot, evLinkUp, evLinkDown:
		e.at, e.life = n.busyUntil, n.life
		s.agenda.add(*e) // with its place among the others that wait
		return true
	}
	return false
}

// calm reports whether nothing goes wrong in the run, and messages are much faster than elections.
func (s *Sim) calm() bool {
	c := &s.cfg
	return c.Faults == [numFaults]uint64{} && c.DropPct+c.DupPct+c.ReorderPct+c.GreetPct+c.SkewPct == 0 && c.Rate == 0 && c.AutopilotMs == 0 &&
		!c.OddFile && !c.Settings && !c.LateHellos && c.NetUs+c.FsyncUs < c.ElectionMs*50
}

// checkLead checks that a leader on which nothing goes wrong stays one, whatever it has to do: T1.
func (s *Sim) checkLead(n *node, was, now zab.Role) {
	if s.cfg.WorkUs > 0 && s.phase == phaseChaos && s.calm() && was == zab.Leading && now != zab.Leading {
		s.fail("T1", "server %d leads no more, and nothing is wrong: %s", n.id, n.status.Reason)
	}
}
