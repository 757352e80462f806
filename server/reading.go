package server

import (
	"time"

	"github.com/zkd-project/zkd/server/monitor"
)

// read looks at everything that is shown of the server. It may be called once the state
// has been recovered, from any goroutine.
func (s *Server) read() *monitor.Reading {
	now := s.now()
	r := &monitor.Reading{
		Metrics:          s.metrics,
		Watches:          s.state.watches.Count(),
		LocalSessions:    s.locals.Len(),
		Connections:      s.conns.len(),
		WaitingRequests:  s.throttler.waiting.Load(),
		WaitingBytes:     s.throttler.bytes.Load(),
		Stalls:           s.throttler.stalls.Load(),
		Uptime:           now - time.Duration(s.servingFrom.Load()),
		LeaderQueue:      s.loop.in.len(),
		ApplierQueue:     s.applier.in.len(),
		LogAfterSnapshot: s.logWriter.Stats().SinceSnapRef,
		SnapshotBytes:    s.snapshots.size.Load(),
		DiskFull:         s.diskFull(),
		RefusesWrites:    s.refusesWrites(),
		Ensemble:         s.ensemble(),
		Serving:          s.serving.Load(),
		Role:             s.role.Load(),
		LeaderUptime:     now - time.Duration(s.metrics.LeadsFrom.Load()),
		LearnerReads:     s.loop.learners.waiting.Load(),
		Sending:          s.loop.learners.sizes(),
		Arriving:         s.loop.arrivals.sizes(),
		Held:             s.holdings(),
	}
	s.state.mu.RLock()
	r.Tree = s.state.tree.Stats()
	r.Sessions = s.state.tree.NumSessions()
	s.state.mu.RUnlock()
	r.OpenFiles, r.MaxFiles = fileDescriptors()
	if peers := s.peers.Load(); peers != nil {
		r.Peers = *peers
	}
	if r.Ensemble {
		lists := s.lists.Load()
		r.Voters, r.Members = lists.settled.NumVoters(), lists.settled.String()
		r.FileMembers = s.intro.Load().Members.String()
	}
	return r
}
