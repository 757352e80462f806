package clients

import (
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
)

// A local session is known only to its server (semantics.md section 14). It costs the
// ensemble nothing, and owns no ephemerals. Clients get one where localSessionsEnabled is
// set, where a server without a leader serves read-only clients, and while the disk is
// full.

// connectLocal opens or resumes a local session, and reports whether the request was for one.
func (c *conn) connectLocal(r *jute.ConnectRequest) (done bool, err error) {
	s := c.clients
	id := r.SessionID
	switch {
	case id == 0 && (c.readOnly || s.cfg.LocalSessions):
		id = s.nextSession()
		if err := c.mayOpen(id); err != nil {
			return true, err
		}
		s.locals.Add(id, c.timeoutMs, millis(c.started))
	case id == 0:
		return false, nil
	case s.locals.Get(id) == nil && !c.readOnly:
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

func (s *Clients) globalSession(id jute.SessionID) (timeoutMs int32, ok bool) {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.state.Tree.Session(id)
}

// openUnlogged opens a local session for a client that asked for an ordinary one, while
// the disk has no room to log that one. When there is room again, it becomes an ordinary
// session with its first ephemeral. The caller holds the tree lock; the connection's
// reader flushes.
func (c *conn) openUnlogged(hasReadOnly bool) {
	s := c.clients
	id := s.nextSessionLocked()
	s.locals.Add(id, c.timeoutMs, millis(c.started))
	c.beginLocal(id, hasReadOnly)
}

// openLocal makes c the connection of a local session, and replies to its client.
func (c *conn) openLocal(id jute.SessionID, hasReadOnly bool) {
	c.beginLocal(id, hasReadOnly)
	c.flush()
}

// beginLocal does the same as openLocal without writing to the socket.
func (c *conn) beginLocal(id jute.SessionID, hasReadOnly bool) {
	s := c.clients
	if !s.locals.Renew(id, c.timeoutMs, millis(c.started)) {
		c.kill() // it has just expired
		return
	}
	if old := s.conns.Claim(id, c); old != nil && old != c {
		old.kill()
	}
	c.local.Store(true)
	c.tracked.Store(s.locals.Get(id))
	c.session.Store(int64(id))
	password := s.keys.Load().Password(id)
	c.sendConnectResponse(&jute.ConnectResponse{
		TimeoutMs:   c.timeoutMs,
		SessionID:   id,
		Password:    password[:],
		HasReadOnly: hasReadOnly,
		ReadOnly:    c.readOnly,
	})
}

// closeLocal closes a local session at its client's request.
func (r *read) closeLocal() {
	r.locals.Remove(r.c.SessionID())
	r.conns.Release(r.c.SessionID())
	r.reply(r.req.xid, r.zxid, 0)
	r.c.endSession()
}

// expireLocals closes the local sessions whose clients have not been heard of in time.
func (s *Clients) expireLocals(now time.Duration) {
	for _, id := range s.locals.Expire(millis(now), nil) {
		s.metrics.SessionsExpired.Add(1)
		s.log.Info("local session expired", zap.Stringer("session", id))
		s.locals.Remove(id)
		if c := s.conns.Release(id); c != nil {
			c.kill()
		}
	}
}

// upgrade asks the leader to make the connection's local session a global one, if the
// request creates an ephemeral and the configuration allows it. Where local sessions are
// not configured, this one is local only because the disk was full. upgrade waits for the
// outcome: the session is then global, or still local if that was refused, and the
// request belongs to that session.
func (c *conn) upgrade(req *request) error {
	allowed := c.clients.cfg.LocalSessionsUpgrading || !c.clients.cfg.LocalSessions
	if !c.local.Load() || !allowed || !createsEphemeral(req) {
		return nil
	}
	outcome := make(chan struct{})
	service := c.push(request{op: jute.OpCreateSession, xid: replica.UpgradeXid, received: req.received, ordered: true, outcome: outcome})
	c.batch = append(c.batch, replica.Submission{
		Kind:     replica.Write,
		Service:  service,
		Received: req.received,
		Request: evaluate.Request{Op: jute.OpCreateSession, Session: c.SessionID(), Origin: c.id, Cxid: replica.UpgradeXid,
			TimeoutMs: c.timeoutMs},
	})
	c.submitBatch()
	c.flush()
	return c.await(outcome)
}

// SessionOpened is called when the creation of a session is applied. A connection that
// had it as a local session has a global one from then on. If another connection than
// origin has resumed it meanwhile, that one ends: the leader does not know it as the
// owner, and perhaps not its timeout. Its client resumes the global session.
func (a *Answers) SessionOpened(id jute.SessionID, origin uint64) {
	if !a.clients.locals.Remove(id) {
		return
	}
	if c := a.clients.conns.OfSession(id); c != nil {
		if c.id != origin {
			c.kill()
		}
		c.tracked.Store(a.clients.tracker.Get(id))
		c.local.Store(false)
	}
}

// createsEphemeral reports whether a request creates an ephemeral, alone or within
// a multi. The leader refuses a request that can't be decoded.
func createsEphemeral(req *request) bool {
	return numEphemerals(req) > 0
}

// numEphemerals returns how many ephemerals a request creates.
func numEphemerals(req *request) (n int64) {
	d := jute.NewAliasDecoder(req.body)
	switch req.op {
	case jute.OpCreate, jute.OpCreate2:
		var r jute.CreateRequest
		if r.Decode(&d); d.Err() == nil && r.Mode.Ephemeral() {
			return 1
		}
	case jute.OpMulti:
		var m jute.MultiRequest
		m.Decode(&d)
		for i := range m.Ops {
			op := &m.Ops[i]
			switch op.Type {
			case jute.OpCreate, jute.OpCreate2, jute.OpCreateOrSet, jute.OpCreateTTL: // with such a mode, createTTL acts as create
				if op.Mode.Ephemeral() {
					n++
				}
			}
		}
	}
	return n
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
	for _, c := range s.conns.All() {
		if c.local.Load() {
			s.locals.Remove(c.SessionID())
			c.kill()
		}
	}
}
