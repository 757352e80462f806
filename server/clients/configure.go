package clients

import (
	"net"
	"strings"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/state"
)

// configurer serves requests about the configuration of this server. It may be used from any goroutine.
type configurer struct {
	log       *zap.Logger
	state     *state.State
	schemes   *auth.Schemes
	configure func(jute.ConfigureRequest) (string, error) // Options.Configure
}

// serve answers a request of c. Unlike reads it is not served under the tree's lock, since it reads files: the requests before
// it are answered first.
func (f *configurer) serve(c *conn, req *line.Request) error {
	if err := c.awaitAnswers(); err != nil {
		return err
	}
	audited := !c.shared.audit.Load().off()
	resp, code := f.carryOut(req, c.line.SessionID(), c.socket.remote())
	if a := c.shared.audit.Load(); audited || !a.off() { // also if it is this request that begins or ends the audit
		c.line.waitFor(a.operated(c.author(req.Auth), req, code))
	}
	applied := f.state.Applied()
	if resp == nil {
		c.line.reply(req.Xid, applied, code)
		return nil
	}
	c.line.Lock()
	defer c.line.Unlock()
	c.stats.answered(req, applied)
	c.line.Outbox.Finish(resp.Append(c.line.Reply(req.Xid, applied, 0)))
	return nil
}

// carryOut carries out a request, if its author may change the members. The response is nil for one that is refused. code is the
// outcome, also of a request that could not be carried out, whose response says why.
func (f *configurer) carryOut(req *line.Request, session jute.SessionID, remote net.Addr) (resp *jute.ConfigureResponse, code jute.Code) {
	var r jute.ConfigureRequest
	d := jute.NewDecoder(req.Body)
	r.Decode(&d)
	switch {
	case d.Err() != nil:
		return nil, jute.ErrMarshalling
	case !f.allows(req):
		return nil, jute.ErrNoAuth
	}
	text, err := f.configure(r)
	resp = &jute.ConfigureResponse{Done: err == nil, Text: text}
	if err != nil {
		code, resp.Text = jute.ErrBadArguments, err.Error()
	}
	if r.Action != jute.ConfigureShow {
		f.log.Info("a client configures the server", zap.String("key", r.Key), zap.Bool("done", resp.Done), zap.String("result", strings.TrimSpace(resp.Text)),
			zap.Stringer("session", session), zap.Stringer("remote", remote))
	}
	return resp, code
}

// allows reports whether the author of a request may change the members.
func (f *configurer) allows(req *line.Request) bool {
	f.state.RLock()
	defer f.state.RUnlock()
	config, _ := f.state.Tree.Get(datatree.ConfigPath)
	return f.schemes.Allowed(config.ACL, jute.PermWrite, req.Auth)
}
