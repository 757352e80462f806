package server

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/zab"
)

// read returns all values shown of the server. It may be called once the state has been
// recovered, from any goroutine.
func (s *Server) read() *monitor.Reading {
	now := s.now()
	log := s.logWriter.Stats()
	r := &monitor.Reading{
		Metrics:          s.metrics,
		Now:              now,
		Watches:          s.state.Watches.Count(),
		Uptime:           now - time.Duration(s.service.from.Load()),
		LeaderQueue:      s.submissions.Len(),
		ApplierQueue:     s.handover.orders.Len(),
		LogAfterSnapshot: log.SinceSnapRef,
		SnapshotBytes:    s.snapshots.size.Load(),
		DiskFull:         s.disk.Full(),
		LogWaits:         log.Lacks != nil,
		RefusesWrites:    s.refusesWrites(),
		Ensemble:         s.ensemble(),
		Serving:          s.service.serving.Load(),
		Role:             s.standing.role.Load(),
		LeaderUptime:     now - time.Duration(s.metrics.LeadsFrom.Load()),
		LearnerReads:     s.loop.learners.waiting.Load(),
		Sending:          s.loop.learners.sizes(),
		Arriving:         s.loop.arrivals.sizes(),
		Held:             s.holdings,
		Troubles:         s.troubles,
		Quotas:           s.quotas,
	}
	s.clients.Show(r)
	s.state.RLock()
	r.Tree = s.state.Tree.Stats()
	r.Sessions = s.state.Tree.NumSessions()
	s.state.RUnlock()
	r.OpenFiles, r.MaxFiles = fileDescriptors()
	division := divideDescriptors(r.MaxFiles, len(s.cfg.Members.Servers))
	r.FilesForClients, r.FilesForHTTP, r.FilesForOwn = division.Clients, division.HTTP, division.Own
	r.MemoryLive, r.MemoryLimit = memory()
	if peers := s.standing.peers.Load(); peers != nil && r.Role.Role == zab.Leading {
		r.Peers = *peers
	}
	if r.Ensemble {
		lists := s.standing.lists.Load()
		r.Voters, r.Members = lists.settled.NumVoters(), lists.settled.String()
		r.FileMembers = s.standing.intro.Load().Members.String()
		if text := s.following.problem.Load(); text != nil {
			r.Unfollowed = *text
		}
	}
	return r
}

// memory returns what the last garbage collection has left, and the limit of the process's memory, 0 for
// none.
func memory() (live, limit int64) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if limit = debug.SetMemoryLimit(-1); limit == math.MaxInt64 {
		limit = 0
	}
	return int64(sample[0].Value.Uint64()), limit
}
