package clients

import (
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
)

// A local session is known only to its server (semantics.md section 14): see package line. It costs the
// ensemble nothing, and owns no ephemerals. Clients get one where localSessionsEnabled is
// set, where a server without a leader serves read-only clients, and while the disk is
// full.

// connectLocal opens or resumes a local session, and reports whether the request was for one.
func (c *conn) connectLocal(r *jute.ConnectRequest) (done bool, err error) {
	s := c.clients
	id := r.SessionID
	switch {
	case id == 0 && (c.line.ReadOnly() || s.cfg.LocalSessions):
		id = s.nextSession()
		if err := c.mayOpen(id); err != nil {
			return true, err
		}
		s.locals.Add(id, c.line.TimeoutMs(), millis(c.started))
	case id == 0:
		return false, nil
	case s.locals.Get(id) == nil && !c.line.ReadOnly():
		return false, nil
	case !s.verify(id, r.Password):
		return false, nil // refused like any wrong password
	case s.locals.Get(id) == nil:
		if _, global := s.globalSession(id); global {
			return true, errNotServing // a server with a leader can resume it
		}
		c.refuseSession(r.HasReadOnly)
		return true, errHangUp
	}
	c.openLocal(id, r.HasReadOnly)
	return true, nil
}

// openLocal makes c the connection of a local session, and replies to its client.
func (c *conn) openLocal(id jute.SessionID, hasReadOnly bool) {
	var old *line.Line
	c.mu.Lock()
	ok := c.line.OpenLocal(id, hasReadOnly, millis(c.started), func(l *line.Line) { old = l })
	c.mu.Unlock()
	if !ok {
		c.kill() // it has just expired
		return
	}
	if old != nil {
		old.Host().Kill()
	}
	c.flush()
}

// expireLocals closes the local sessions whose clients have not been heard of in time.
func (s *Clients) expireLocals(now time.Duration) {
	s.lines.ExpireLocals(millis(now), func(id jute.SessionID) {
		s.metrics.SessionsExpired.Add(1)
		s.log.Info("local session expired", zap.Stringer("session", id))
	})
}

func (s *Clients) globalSession(id jute.SessionID) (timeoutMs int32, ok bool) {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.state.Tree.Session(id)
}

// considerReadOnly lets read-only clients in when there has been no leader for a while
// (readonlymode.enabled, semantics.md section 15). They see the last committed state, and
// are disconnected when there is a leader again.
func (s *Clients) considerReadOnly(now time.Duration) {
	if !s.cfg.ReadOnlyMode || !s.cfg.Replicated() || s.backend.Serving() || s.backend.Ending() || s.readOnly.Load() {
		return
	}
	if now-s.backend.IdleSince() < max(2*time.Second, s.cfg.TickTime) {
		return
	}
	s.log.Warn("no leader: serving read-only clients from the last committed state", zap.Stringer("zxid", s.state.Applied()))
	s.BeginReadOnly()
}

// BeginReadOnly lets read-only clients in.
func (s *Clients) BeginReadOnly() { s.readOnly.Store(true) }

// EndReadOnly disconnects read-only clients, and lets none in: there is a leader, or the state is wrong.
func (s *Clients) EndReadOnly() {
	if !s.readOnly.Swap(false) {
		return
	}
	s.lines.EndLocals()
}
