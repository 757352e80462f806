package clients

import (
	"net"
	"strings"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/datatree"
)

// configure serves a request about the configuration of this server. Unlike reads it is not
// served under the tree's lock, since it reads files: the requests before it are answered
// first. A client that may change the members may ask for it.
func (c *conn) configure(req *line.Request) error {
	if err := c.awaitAnswers(); err != nil {
		return err
	}
	s := c.clients
	var r jute.ConfigureRequest
	d := jute.NewDecoder(req.Body)
	r.Decode(&d)
	code := jute.Code(0)
	if d.Err() != nil {
		code = jute.ErrMarshalling
	} else if !s.mayConfigure(req) {
		code = jute.ErrNoAuth
	}
	audited := !s.audit.Load().off() // also if it is this request that ends the audit
	if code != 0 {
		s.auditConfigure(c, req, audited, code)
		c.reply(req.Xid, s.state.Applied(), code)
		return nil
	}
	text, err := s.configure(r)
	if err != nil {
		code = jute.ErrBadArguments
	}
	s.auditConfigure(c, req, audited, code)
	resp := jute.ConfigureResponse{Done: err == nil, Text: text}
	if err != nil {
		resp.Text = err.Error()
	}
	if r.Action != jute.ConfigureShow {
		s.log.Info("a client configures the server", zap.String("key", r.Key), zap.Bool("done", resp.Done), zap.String("result", strings.TrimSpace(resp.Text)),
			zap.Stringer("session", c.line.SessionID()), zap.Stringer("remote", c.nc.RemoteAddr()))
	}
	applied := s.state.Applied()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.stats.answered(req, applied)
	c.line.Finish(resp.Append(c.line.Reply(req.Xid, applied, 0)))
	return nil
}

// auditConfigure makes the entry about a request about the configuration, if it was audited before it
// was carried out, or is now.
func (s *Clients) auditConfigure(c *conn, req *line.Request, audited bool, code jute.Code) {
	if a := s.audit.Load(); audited || !a.off() {
		a.operated(c, req, code)
	}
}

// mayConfigure reports whether the author of a request may change the members.
func (s *Clients) mayConfigure(req *line.Request) bool {
	s.state.RLock()
	defer s.state.RUnlock()
	config, _ := s.state.Tree.Get(datatree.ConfigPath)
	return s.schemes.Allowed(config.ACL, jute.PermWrite, req.Auth)
}

// awaitAnswers makes the reader wait until no request of the connection is pending.
func (c *conn) awaitAnswers() error {
	c.submitBatch()
	c.flush()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.line.Waiting() > 0 {
		if c.line.Ends() {
			return net.ErrClosed
		}
		c.drained.Wait()
	}
	return nil
}
