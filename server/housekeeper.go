package server

import (
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/zab"
)

// keepHouse does what is due each tick: it lets sessions expire, and looks at the
// disk and the quotas.
func (s *Server) keepHouse() {
	tick := time.NewTicker(s.cfg.TickTime / 2)
	defer tick.Stop()
	last := s.now()
	var exceeded exceededQuotas
	for {
		select {
		case <-tick.C:
			now := s.now()
			s.forgivePause(now - last)
			last = now
			s.watchDisk()
			if s.ids.Short() {
				s.replica.events.put(peerEvent{kind: evReserveIDs})
			}
			exceeded = s.watchQuotas(exceeded)
			s.replica.events.put(peerEvent{kind: evExpire, at: now})
			s.expireLocals(now)
			s.considerReadOnly(now)
		case <-s.stopping:
			return
		}
	}
}

// leads reports whether this server is the leader, in service.
func (s *Server) leads() bool { return s.role.Load().Role == zab.Leading }

// cleanUp removes containers and TTL nodes that are due. It takes its time, so
// that it has a goroutine of its own.
func (s *Server) cleanUp() {
	check := time.NewTicker(s.cfg.ContainerCheckInterval)
	defer check.Stop()
	for {
		select {
		case <-check.C:
			if s.leads() && !s.removeExpired() {
				return
			}
		case <-s.stopping:
			return
		}
	}
}

// forgivePause gives sessions back the time in which this process could not
// hear from anybody, because it was stopped or starved: they expire late, never
// early (zab.md section E, rule 4).
func (s *Server) forgivePause(sinceLast time.Duration) {
	if gap := sinceLast - s.cfg.TickTime/2; gap > s.cfg.TickTime/2 {
		s.log.Warn("process was paused: sessions get the time back", zap.Duration("pause", gap))
		s.tracker.Postpone(millis(gap))
		s.locals.Postpone(millis(gap))
	}
}

// expireSessions proposes the closes of the sessions that were due at now, when no
// pause was left to be forgiven. The peer loop does so, that nothing comes between
// the end of a session and the proposal. While requests wait to be proposed none ends:
// they are signs of life, and would be answered as if the session were to go on.
func (r *replica) expireSessions(now time.Duration) {
	if r.status.Role != zab.Leading || len(r.leading.waiting) > 0 {
		return
	}
	var closes []submission
	for _, id := range r.tracker.Expire(millis(now), r.mayLive) {
		r.metrics.sessionsExpired.Add(1)
		r.log.Info("session expired", zap.Stringer("session", id))
		closes = append(closes, submission{
			kind:     submitWrite,
			received: now,
			req:      evaluate.Request{Op: jute.OpCloseSession, Session: id},
		})
	}
	r.propose(closes)
}

// removeExpired proposes to remove empty containers and TTL nodes that are due,
// no faster than znode.container.maxPerMinute. It reports whether the server
// goes on.
func (s *Server) removeExpired() bool {
	pace := time.NewTicker(max(time.Minute/time.Duration(max(s.cfg.ContainerMaxPerMinute, 1)), time.Microsecond))
	defer pace.Stop()
	for _, r := range s.dueForRemoval() {
		select {
		case <-pace.C:
		case <-s.stopping:
			return false
		}
		s.replica.submit(submission{
			kind:     submitWrite,
			received: s.now(),
			req:      evaluate.Request{Op: jute.OpDeleteContainer, Removal: r},
		})
	}
	return true
}

// dueForRemoval looks the candidates up. The leader's evaluator looks again, so
// one that is used meanwhile stays.
func (s *Server) dueForRemoval() []evaluate.Removal {
	var due []evaluate.Removal
	s.state.mu.RLock()
	defer s.state.mu.RUnlock()
	s.state.tree.Expirable(time.Now().UnixMilli(), s.cfg.ContainerMaxNeverUsed.Milliseconds(),
		func(path string, n datatree.Node) bool {
			due = append(due, evaluate.Removal{Path: path, Cversion: n.Cversion, Mtime: n.Mtime})
			return true
		})
	return due
}
