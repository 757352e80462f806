package clients

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth/sasl"
	"github.com/zkd-project/zkd/server/clients/line"
)

// errNullToken means that a SASL request has no token.
var errNullToken = errors.New("SASL request with a null token")

// exchangeSASL handles a token of SASL (wire.md section 17). Like an auth packet, it is
// answered at once, before requests that still wait, and the identities that it yields
// apply to the requests after it. A request without a token ends the connection without a
// reply, as in Apache's server.
func (c *conn) exchangeSASL(req *line.Request) error {
	var r jute.SASLToken
	d := jute.NewAliasDecoder(req.Body)
	r.Decode(&d)
	switch {
	case d.Err() != nil:
		return fmt.Errorf("SASL request: %w", d.Err())
	case r.Token == nil:
		return errNullToken
	case c.clients.sasl == nil:
		c.replySASL(req, nil, 0)
		return nil
	}
	if c.sasl == nil {
		c.sasl = c.clients.sasl.Begin(c.secure.Load())
	}
	name := ""
	if user := c.sasl.User(r.Token); user != "" {
		name = sasl.Scheme + ":" + user
	}
	attempt, err := c.clients.beginAttempt(c.ip(), name, c.awaitTurn)
	if err != nil {
		return c.failSASL(req, err)
	}
	reply, proof, err := c.sasl.Step(r.Token)
	attempt.End(err != nil, c.clients.now())
	if err != nil {
		return c.failSASL(req, err)
	}
	if len(proof.IDs) > 0 {
		creds, err := c.credentials.Load().With(proof)
		if err != nil {
			return c.failSASL(req, err)
		}
		c.setCredentials(creds)
		c.clients.audit.Load().authenticated(c, sasl.Scheme, nil)
	}
	c.replySASL(req, reply, 0)
	return nil
}

// failSASL refuses a login, which ends the connection unless allowSaslFailedClients is set.
func (c *conn) failSASL(req *line.Request, err error) error {
	if errors.Is(err, errHangUp) || errors.Is(err, net.ErrClosed) {
		return err
	}
	s := c.clients
	s.metrics.AuthFailed.Add(1)
	live := s.live.Load()
	required := live.EnforceAuth && slices.Contains(live.EnforceAuthSchemes, sasl.Scheme)
	code := jute.ErrAuthFailed
	switch {
	case required:
		code = jute.ErrSessionClosedRequireSASL
	case s.cfg.SASL.AllowFailed:
		s.audit.Load().authenticated(c, sasl.Scheme, code)
		c.replySASL(req, nil, 0)
		return nil
	}
	s.audit.Load().authenticated(c, sasl.Scheme, code)
	c.replySASL(req, nil, code)
	c.endAfterFlush()
	return fmt.Errorf("SASL: %w", err)
}

func (c *conn) replySASL(req *line.Request, token []byte, code jute.Code) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line.Finish(jute.AppendBuffer(c.line.Reply(req.Xid, 0, code), token))
}
