package clients

import (
	"errors"
	"fmt"
	"os"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/session"
)

var (
	errNotServing    = line.ErrNotServing
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
	if jute.Extended(&d) {
		var asked jute.ExtensionRequest
		asked.Decode(&d)
		c.line.Extend(asked)
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
	admission := line.Admission{
		Service: s.backend.Service(), Serving: s.backend.Serving(), Alone: !s.cfg.Replicated(),
		ReadOnly: s.readOnly.Load(), AllowsRO: r.ReadOnly, ID: r.SessionID, Seen: r.LastZxidSeen,
	}
	if s.backend.Ending() {
		s.metrics.NotServing.Add(1)
		return errNotServing
	}
	err := s.lines.Admit(&c.line, &admission)
	switch {
	case err == line.ErrClientAhead:
		return fmt.Errorf("%w: %v, here %v", err, r.LastZxidSeen, s.state.Applied())
	case err != nil:
		s.metrics.NotServing.Add(1)
		return err
	case admission.Serving && !s.newSessions.take(s.now()):
		s.metrics.ConnectionDrops.Add(1)
		return errTooManyOpened
	}
	return nil
}

// connect creates or resumes the session and waits for the outcome.
func (c *conn) connect(r *jute.ConnectRequest) error {
	s := c.clients
	live := s.live.Load()
	c.line.SetTimeout(session.Negotiate(r.TimeoutMs, int32(live.MinSessionTimeout.Milliseconds()), int32(live.MaxSessionTimeout.Milliseconds())))
	if s.keepsAway(c, r) {
		return errHangUp
	}
	if done, err := c.connectLocal(r); done || err != nil {
		return err
	}
	id := r.SessionID
	if id == 0 {
		id = s.nextSession()
		if err := c.mayOpen(id); err != nil {
			return err
		}
	} else if !s.verify(id, r.Password) {
		// The password is checked first: knowing an id must not be enough to disconnect
		// its owner, as it is in Apache's server.
		s.metrics.BadPasswords.Add(1)
		s.audit.Load().notResumed(c, id)
		c.refuseSession(r.HasReadOnly)
		return fmt.Errorf("resume session %v: wrong password", id)
	}
	c.decided = make(chan struct{})
	c.mu.Lock()
	sub := c.line.Open(id, r.SessionID != 0, r.HasReadOnly, c.started)
	c.enterOwnLocked()
	c.mu.Unlock()
	s.backend.Submit(sub)
	if err := c.await(c.decided); err != nil {
		return err
	}
	return c.establishedOrRefused()
}

func (c *conn) establishedOrRefused() error {
	c.mu.Lock()
	over := c.line.Ends()
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
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line.Refuse(hasReadOnly)
}
