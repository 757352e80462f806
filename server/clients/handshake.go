package clients

import (
	"errors"
	"fmt"
	"os"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/internal/misdial"
	"github.com/zkd-project/zkd/internal/mux"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/secure"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/show"
)

// handshake takes a connection from its first bytes to an established session. After the
// handshake of TLS, if there is one, the first four bytes decide: they are a four-letter word, or the length of a connect request.
// Nothing more is read until the session is established. errCarries means that they are the greeting of package mux.
func (c *conn) handshake() error {
	if err := c.secureIfTLS(); err != nil {
		return err
	}
	c.socket.readWithin(c.shared.live.Load().SessionlessCnxnTimeout)
	word, err := c.frames.AwaitWord()
	if err != nil {
		return c.shared.sessionless(err)
	}
	if word[0] == tlsRecord && word[1] == 3 && c.kind == plainPort {
		return c.shared.complaints.refused(c.socket.remote(), errTLSOnPlain)
	}
	if word == mux.Greeting && c.takes != register.Carried && !c.wordsOnly {
		return errCarries
	}
	if done, err := c.fourLetterWord(word); done || err != nil {
		return errors.Join(err, errHangUp)
	}
	if c.wordsOnly {
		c.shared.metrics.ConnectionRejected.Add(1)
		return errNoRoom
	}
	frame, err := c.frames.AwaitFrame()
	if err != nil {
		return c.shared.sessionless(err)
	}
	c.socket.readWithoutDeadline()
	c.batchAt = c.shared.now()

	var r jute.ConnectRequest
	d := jute.NewDecoder(frame)
	r.Decode(&d)
	if jute.Extended(&d) {
		var asked jute.ExtensionRequest
		asked.Decode(&d)
		if c.takes != register.Carried {
			asked.Features &^= jute.FeaturePings
		}
		c.line.Extend(asked)
	}
	if d.Err() != nil {
		return fmt.Errorf("%w: %w", errBadConnect, d.Err())
	}
	if err := c.shared.admits(&c.line.Line, &r); err != nil {
		return err
	}
	if err := c.connect(&r); err != nil {
		return err
	}
	c.limits.sessionOpened()
	return nil
}

// secureIfTLS makes the connection one with TLS if that is what its port is for or, on a
// port for both, if the client begins with TLS.
func (c *conn) secureIfTLS() error {
	if c.kind == plainPort {
		return nil
	}
	door := &c.shared.tls
	c.socket.readWithin(door.DetectionTimeout)
	first, err := c.frames.AwaitFirst()
	switch {
	case err != nil:
		return c.shared.sessionless(err)
	case first == tlsRecord:
	case c.kind == bothPort:
		return nil
	default:
		door.Observe(secure.ErrPlain)
		if first == misdial.Client {
			misdial.Tell(c.socket.nc, "TLS only: this is the secureClientPort")
		}
		return c.shared.complaints.refused(c.socket.remote(), errPlainOnTLS)
	}
	subject, weight := c.shared.rules.weights.Load().Of(c.identity.ids())
	state, err := door.accept(&c.socket, c.frames, crowdKey{subject, int64(weight)})
	if err == nil {
		err = c.login.certificate(state, c.awaitTurn)
	}
	if err != nil {
		return c.shared.complaints.refused(c.socket.remote(), err)
	}
	return nil
}

// sessionless returns the error for a client that never sent a connect request.
func (s *shared) sessionless(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.metrics.Sessionless.Add(1)
		return errSessionless
	}
	return err
}

// fourLetterWord answers a four-letter word if the connection begins with one. A word that is not
// allowed is refused at once. An allowed one that needs an argument waits for it, but is answered
// without it when the client sends no more.
func (c *conn) fourLetterWord(word [4]byte) (done bool, err error) {
	cmd, ok := fourletter.Lookup(word)
	if !ok {
		return false, nil
	}
	c.frames.Take(len(word))
	allowed := *c.shared.words.Load()
	var arg []byte
	if allowed.Allows(cmd) {
		arg = c.frames.AwaitBytes(cmd.ArgLen())
	}
	c.shared.log.Debug("four-letter word " + cmd.String())
	c.socket.writeWithin(c.shared.live.Load().SessionlessCnxnTimeout)
	err = show.Execute(c.socket.stream, cmd, arg, allowed, c.shared.backend.Shows(c.line.Origin()))
	c.line.endAfterFlush()
	return true, err
}

// admits checks a connect request before any work is done for it. A refusal closes
// the connection without a reply, so the client tries another server (wire.md section 3).
func (s *shared) admits(l *line.Line, r *jute.ConnectRequest) error {
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
	err := s.lines.Admit(l, &admission)
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
	s := c.shared
	live := s.live.Load()
	c.line.Session.SetTimeout(session.Negotiate(r.TimeoutMs, int32(live.MinSessionTimeout.Milliseconds()), int32(live.MaxSessionTimeout.Milliseconds())))
	if s.drain.keepsAway(&c.line, r) {
		return errHangUp
	}
	if done, err := c.connectLocal(r); done || err != nil {
		return err
	}
	id := r.SessionID
	if id == 0 {
		id = s.sessions.next()
		if err := c.limits.mayOpen(id); err != nil {
			return err
		}
	} else if !s.sessions.verify(id, r.Password) {
		// The password is checked first: knowing an id must not be enough to disconnect
		// its owner, as it is in Apache's server.
		s.metrics.BadPasswords.Add(1)
		s.audit.Load().notResumed(author{session: id, ip: c.identity.ip(), ids: c.identity.ids(), door: c.door})
		c.line.refuseSession(r.HasReadOnly)
		return fmt.Errorf("resume session %v: wrong password", id)
	}
	c.decided = make(chan struct{})
	c.joinCrowd()
	c.line.Lock()
	sub := c.line.Open(id, r.SessionID != 0, r.HasReadOnly, c.batchAt)
	s.throttler.enterLast(c.crowd, c.line.Waiting.All())
	c.line.Unlock()
	s.backend.Submit(sub)
	if err := c.socket.await(c.decided); err != nil {
		return err
	}
	return c.established()
}

// established writes the response to the connect request, unless the client was refused without one.
func (c *conn) established() error {
	c.line.Lock()
	over := c.line.Outbox.Ends()
	c.line.Unlock()
	if over {
		return errHangUp
	}
	c.out.flush()
	return nil
}

// connectLocal opens or resumes a local session, and reports whether the request was for one.
func (c *conn) connectLocal(r *jute.ConnectRequest) (done bool, err error) {
	s := c.shared
	id, locals := r.SessionID, s.sessions.locals
	switch {
	case !c.line.Locally(id):
		return false, nil
	case id == 0:
		id = s.sessions.next()
		if err := c.limits.mayOpen(id); err != nil {
			return true, err
		}
		locals.Add(id, c.line.Session.TimeoutMs(), millis(c.batchAt))
	case !s.sessions.verify(id, r.Password):
		return false, nil // refused like any wrong password
	case locals.Get(id) == nil:
		if s.sessions.isGlobal(id) {
			return true, errNotServing // a server with a leader can resume it
		}
		c.line.refuseSession(r.HasReadOnly)
		return true, errHangUp
	}
	c.openLocal(id, r.HasReadOnly)
	return true, nil
}

// openLocal makes c the connection of a local session, and replies to its client.
func (c *conn) openLocal(id jute.SessionID, hasReadOnly bool) {
	var old *line.Line
	c.line.Lock()
	ok := c.line.OpenLocal(id, hasReadOnly, millis(c.batchAt), func(l *line.Line) { old = l })
	c.line.Unlock()
	if old != nil {
		old.Host().Kill()
	}
	if !ok {
		c.kill()
		return
	}
	c.out.flush()
}
