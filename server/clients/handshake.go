package clients

import (
	"errors"
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
)

var (
	errNotServing    = errors.New("server is not serving")
	errClientAhead   = errors.New("client has seen a later zxid than this server")
	errBadConnect    = errors.New("first frame is no connect request")
	errSessionless   = errors.New("no connect request in time")
	errTooManyOpened = errors.New("more new sessions than the connection throttle allows")

	errNoRoom = errors.New("maxClientCnxns or maxCnxns is reached")
)

// handshake takes a connection from its first bytes to an established session. After the
// handshake of TLS, if there is one, the first four bytes decide: they are a four-letter word, or the length of a connect request.
// Nothing more is read until the session is established.
func (c *conn) handshake() error {
	if err := c.secureIfTLS(); err != nil {
		return err
	}
	c.readWithin(c.clients.live.Load().SessionlessCnxnTimeout)
	word, err := c.firstWord()
	if err != nil {
		return c.sessionless(err)
	}
	if word[0] == tlsRecord && word[1] == 3 && c.kind == plainPort {
		return c.refused(errTLSOnPlain)
	}
	if done, err := c.fourLetterWord(word); done || err != nil {
		return errors.Join(err, errHangUp)
	}
	frame, err := c.firstFrame()
	if err != nil {
		return c.sessionless(err)
	}
	c.readWithoutDeadline()
	c.started = c.clients.now()

	var r jute.ConnectRequest
	d := jute.NewDecoder(frame)
	r.Decode(&d)
	if c.extended = jute.Extended(&d); c.extended {
		c.asked.Decode(&d)
	}
	if d.Err() != nil {
		return fmt.Errorf("%w: %w", errBadConnect, d.Err())
	}
	if err := c.clients.admitConnect(c, &r); err != nil {
		return err
	}
	if err := c.connect(&r); err != nil {
		return err
	}
	c.sessionOpened()
	return nil
}

// sessionless returns the error for a client that never sent a connect request.
func (c *conn) sessionless(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.clients.metrics.Sessionless.Add(1)
		return errSessionless
	}
	return err
}

func (c *conn) firstWord() (w [4]byte, err error) {
	for {
		if w, ok := c.frames.word(); ok {
			return w, nil
		}
		if _, err := c.frames.fill(); err != nil {
			return w, err
		}
	}
}

func (c *conn) firstFrame() ([]byte, error) {
	for {
		frame, ok, err := c.frames.next()
		if ok || err != nil {
			return frame, err
		}
		if _, err := c.frames.fill(); err != nil {
			return nil, err
		}
	}
}

// admitConnect checks a connect request before any work is done for it. A refusal closes
// the connection without a reply, so the client tries another server (wire.md section 3).
func (s *Clients) admitConnect(c *conn, r *jute.ConnectRequest) error {
	s.metrics.ConnectionRequests.Add(1)
	if r.SessionID != 0 {
		s.metrics.Revalidations.Add(1)
	}
	service := s.backend.Service()
	switch {
	case s.backend.Ending():
		s.metrics.NotServing.Add(1)
		return errNotServing
	case c.id < service && s.fenced.Load() < service: // what it asks for could not be told from what earlier connections did
		s.metrics.NotServing.Add(1)
		return errNotServing
	case !s.backend.Serving():
		if c.readOnly = s.readOnly.Load() && r.ReadOnly; !c.readOnly {
			s.metrics.NotServing.Add(1)
			return errNotServing
		}
	case !s.newSessions.take(s.now()):
		s.metrics.ConnectionDrops.Add(1)
		return errTooManyOpened
	}
	// A session is resumed after everything that the leader has ordered, so a server that
	// lags only a little need not refuse the client: the leader does, if the client is ahead of
	// it. Where the leader does not decide, the check is made now.
	decides := r.SessionID != 0 && s.locals.Get(r.SessionID) == nil && !c.readOnly && s.cfg.Replicated()
	if last := s.state.Applied(); r.LastZxidSeen > last && !decides {
		return fmt.Errorf("%w: %v, here %v", errClientAhead, r.LastZxidSeen, last)
	}
	c.seen = r.LastZxidSeen
	c.mu.Lock()
	c.mu.pending.Service = service
	c.mu.Unlock()
	return nil
}

// connect creates or resumes the session and waits for the outcome.
func (c *conn) connect(r *jute.ConnectRequest) error {
	s := c.clients
	live := s.live.Load()
	c.timeoutMs = session.Negotiate(r.TimeoutMs, int32(live.MinSessionTimeout.Milliseconds()), int32(live.MaxSessionTimeout.Milliseconds()))
	if s.keepsAway(c, r) {
		return errHangUp
	}
	if done, err := c.connectLocal(r); done || err != nil {
		return err
	}
	sub := replica.Submission{
		Kind:     replica.Write,
		Received: c.started,
		Request: evaluate.Request{Op: jute.OpCreateSession, Session: r.SessionID, Origin: c.id, TimeoutMs: c.timeoutMs,
			Exact: c.asked.Features&jute.FeatureExactlyOnce != 0},
	}
	if r.SessionID == 0 {
		sub.Request.Session = s.nextSession()
		if err := c.mayOpen(sub.Request.Session); err != nil {
			return err
		}
	} else {
		// The password is checked first: knowing an id must not be enough to disconnect
		// its owner, as it is in Apache's server.
		if !s.verify(r.SessionID, r.Password) {
			s.metrics.BadPasswords.Add(1)
			s.audit.Load().notResumed(c, r.SessionID)
			c.refuseSession(r.HasReadOnly)
			return fmt.Errorf("resume session %v: wrong password", r.SessionID)
		}
		sub.Kind, sub.Seen = replica.Resume, r.LastZxidSeen
	}
	readOnly := byte(0)
	if r.HasReadOnly {
		readOnly = 1
	}
	established := make(chan struct{}) // closed by the applier with the connect response
	sub.Service = c.push(request{op: jute.OpCreateSession, received: c.started, ordered: true, body: []byte{readOnly}, outcome: established})
	c.touched.Store(millis(c.started)) // the leader starts the session's timeout no earlier than this
	s.backend.Submit(sub)
	if err := c.await(established); err != nil {
		return err
	}
	return c.establishedOrRefused()
}

func (c *conn) establishedOrRefused() error {
	c.mu.Lock()
	over := c.mu.ending || c.mu.gone
	c.mu.Unlock()
	if over {
		return errHangUp
	}
	c.flush()
	return nil
}

// verify reports whether password is that of the session. A session that Apache's server has
// opened keeps the password of that server, so that its client may also go back there.
func (s *Clients) verify(id jute.SessionID, password []byte) bool {
	if s.keys.Load().Verify(id, password) {
		return true
	}
	s.state.RLock()
	defer s.state.RUnlock()
	return s.state.Tree.FromApache(id) && session.VerifyApache(id, password)
}

// refuseSession tells the client that its session no longer exists, and ends the
// connection.
func (c *conn) refuseSession(hasReadOnly bool) {
	c.sendConnectResponse(&jute.ConnectResponse{Password: make([]byte, jute.PasswordLen), HasReadOnly: hasReadOnly, ReadOnly: c.readOnly})
	c.endAfterFlush()
}

// sendConnectResponse tells the client which session it has, and which extensions if it asked. The
// caller holds the tree lock for writing, unless the session is local or there is none.
func (c *conn) sendConnectResponse(r *jute.ConnectResponse) {
	b, mark := jute.BeginFrame(nil)
	b = r.Append(b)
	var replies []datatree.Outcome
	if c.extended {
		var ext jute.ExtensionResponse
		if r.SessionID != 0 {
			ext, replies = c.grant(r.SessionID)
		}
		b = ext.Append(b)
	}
	c.send(jute.EndFrame(b, mark))
	for i := range replies {
		c.sendOutcome(&replies[i])
	}
}

// answerConnect is the applier's part, called when the session has been created or
// resumed, or when a barrier has passed because it could not be. The session exists
// then, or it never will again. The client is told the timeout in the tree, which holds
// on all servers. The caller holds the tree lock for writing.
func (s *Clients) answerConnect(c *conn, id jute.SessionID, code jute.Code, hasReadOnly bool) {
	tracked := s.tracker.Get(id)
	timeoutMs, alive := s.state.Tree.Session(id)
	if last := s.state.Tree.LastZxid(); c.seen > last { // a leader of an earlier version does not look
		s.logEnd(zap.InfoLevel, "closing connection", fmt.Errorf("%w: %v, here %v", errClientAhead, c.seen, last),
			zap.Stringer("remote", c.nc.RemoteAddr()), zap.Stringer("session", id))
		c.kill()
		return
	}
	if code == jute.ErrNotReadOnly {
		c.openUnlogged(hasReadOnly)
		return
	}
	if !alive || code != 0 || tracked == nil {
		c.refuseSession(hasReadOnly)
		return
	}
	if tracked.Closing() {
		c.kill() // neither open nor closed: the client tries again
		return
	}
	if old := s.conns.Claim(id, c); old != nil && old != c {
		old.kill()
	}
	c.timeoutMs = timeoutMs
	c.tracked.Store(tracked)
	c.session.Store(int64(id))
	password := s.keys.Load().Password(id)
	if s.state.Tree.FromApache(id) {
		password = session.ApachePassword(id)
	}
	c.sendConnectResponse(&jute.ConnectResponse{
		TimeoutMs:   c.timeoutMs,
		SessionID:   id,
		Password:    password[:],
		HasReadOnly: hasReadOnly,
	})
	s.log.Debug("session established", zap.Stringer("session", id), zap.Stringer("remote", c.nc.RemoteAddr()),
		zap.Int32("timeout_ms", c.timeoutMs))
}
