package server

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/show"
	"github.com/zkd-project/zkd/server/zab"
)

// read looks at the server. This is where a show.View is filled; a source adds the lists of words and
// pages. It may be called once the state has been recovered, from any goroutine.
func (s *Server) read() *show.View {
	now := s.now()
	log := s.logWriter.Stats()
	v := &show.View{
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
		Version:          s.opts.Version,
		ReadOnly:         s.clients.ReadOnly() && !s.service.Serving(),
		Zxid:             int64(s.state.Applied()),
		Latency:          s.metrics.Requests.Latency(),
		Disk:             s.diskRemark(),
		Drain:            s.clients.DrainRemark(),
		Lists:            show.Lists{Held: s.holdings, Troubles: s.troubles, Quotas: s.quotas},
	}
	s.clients.Show(v)
	s.state.RLock()
	v.Tree = s.state.Tree.Stats()
	v.Sessions = s.state.Tree.NumSessions()
	s.state.RUnlock()
	v.OpenFiles, v.MaxFiles = base.FileDescriptors()
	division := base.DivideDescriptors(v.MaxFiles, len(s.cfg.Members.Servers))
	v.FilesForClients, v.FilesForHTTP, v.FilesForOwn = division.Clients, division.HTTP, division.Own
	v.MemoryLive, v.MemoryLimit = memory()
	if peers := s.standing.peers.Load(); peers != nil && v.Role.Role == zab.Leading {
		v.Peers = *peers
	}
	if v.Ensemble {
		lists := s.standing.lists.Load()
		v.Voters, v.Members = lists.settled.NumVoters(), lists.settled.String()
		v.FileMembers = s.standing.intro.Load().Members.String()
		if text := s.following.problem.Load(); text != nil {
			v.Unfollowed = *text
		}
	}
	return v
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

// joiners returns the servers that a leader brings up to date.
func (s *Server) joiners(v *show.View) (list []show.Joiner) {
	for i := range v.Peers {
		p := &v.Peers[i]
		if p.Synced {
			continue
		}
		left, ok := s.logWriter.BytesAfter(p.Match)
		j := show.Joiner{ID: int64(p.ID), Snapshot: !ok, LogLeft: left}
		for _, x := range v.Sending {
			if x.Peer == p.ID {
				j.Snapshot, j.Sent, j.Size = true, x.Done, x.Size
			}
		}
		list = append(list, j)
	}
	return list
}
