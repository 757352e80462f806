package server

import (
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/base"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
)

// runHousekeeper does the periodic work of each tick: it expires sessions, and checks the disk
// and the quotas.
func (s *Server) runHousekeeper() {
	tick := time.NewTicker(s.cfg.TickTime / 2)
	defer tick.Stop()
	last := s.now()
	var exceeded exceededQuotas
	looked := false
	for {
		select {
		case <-tick.C:
			now := s.now()
			s.postponeExpiry(now - last)
			last = now
			s.watchDisk()
			s.watchVoters(now)
			if !looked && s.service.serving.Load() {
				looked = true
				s.warnOfOpenRoot()
			}
			if s.ids.Short() {
				s.events.Put(peerEvent{kind: evReserveIDs})
			}
			exceeded = s.watchQuotas(exceeded)
			s.events.Put(peerEvent{kind: evExpire, at: now})
			s.clients.Tick(now)
			if s.transport != nil {
				s.transport.Tick()
			}
		case <-s.life.Stopping():
			return
		}
	}
}

// warnOfOpenRoot warns if everybody may change the tree through a port without TLS.
func (s *Server) warnOfOpenRoot() {
	if s.openRoot() {
		s.log.Warn("everybody who reaches the client port may change the tree: see ACLs in docs/security.md", zap.Stringer("address", s.clients.Addr()))
	}
}

// cleanUp removes containers and TTL nodes that are due, and has quotas counted. It has a separate goroutine
// because it takes long.
func (s *Server) cleanUp() {
	check := base.NewPulse()
	defer check.Stop()
	for {
		check.Every(s.settings.Live().ContainerCheckInterval)
		select {
		case <-check.C:
			s.recountQuotas()
			if !s.removeExpired() {
				return
			}
		case <-s.reloaded:
		case <-s.life.Stopping():
			return
		}
	}
}

// postponeExpiry extends sessions by the time in which this process could not hear from
// anybody because it was stopped or starved: they expire late, never early (zab.md
// section E, rule 4).
func (s *Server) postponeExpiry(sinceLast time.Duration) {
	if ms := session.Pause(millis(sinceLast), millis(s.cfg.TickTime/2)); ms > 0 {
		pause := time.Duration(ms) * time.Millisecond
		s.log.Warn("process was paused: sessions get the time back", zap.Duration("pause", pause))
		s.tracker.Postpone(ms)
		s.clients.Postpone(pause)
	}
}

// expireSlice is the number of containers and TTL nodes examined under one hold of the
// tree's lock.
const expireSlice = 1024

// removeExpired proposes to remove empty containers and TTL nodes that are due, no faster
// than znode.container.maxPerMinute. The leader does it. It reports whether the server is still running.
func (s *Server) removeExpired() bool {
	pace := time.NewTicker(max(time.Minute/time.Duration(max(s.settings.Live().ContainerMaxPerMinute, 1)), time.Microsecond))
	defer pace.Stop()
	var cursor datatree.ExpiryCursor
	var due []evaluate.Removal
	for more := true; more && s.standing.leads(); {
		due, more = s.dueForRemoval(&cursor, due[:0])
		for _, r := range due {
			for wait := true; wait; wait = s.submissions.Len() >= expireSlice { // the leader is busy
				select {
				case <-pace.C:
				case <-s.life.Stopping():
					return false
				}
			}
			s.submissions.Put(replica.Submission{
				Received: s.now(),
				Request:  evaluate.Request{Op: jute.OpDeleteContainer, Removal: r},
			})
		}
	}
	return true
}

// dueForRemoval appends the candidates among the next nodes that may expire. The leader's
// evaluator checks them again, so a node that is used meanwhile stays.
func (s *Server) dueForRemoval(cursor *datatree.ExpiryCursor, due []evaluate.Removal) (_ []evaluate.Removal, more bool) {
	s.state.RLock()
	defer s.state.RUnlock()
	more = s.state.Tree.Expirable(cursor, expireSlice, time.Now().UnixMilli(), s.settings.Live().ContainerMaxNeverUsed.Milliseconds(),
		func(path string, n datatree.Node) {
			due = append(due, evaluate.Removal{Path: path, Cversion: n.Cversion, Mtime: n.Mtime})
		})
	return due, more
}
