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
	log      *zap.Logger
	state    *state.State
	schemes  *auth.Schemes
	carryOut func(jute.ConfigureRequest) (string, error) // Options.Configure
}

// serve carries out a request, if its author may change the members. The response is nil for one that is refused. code is the
// outcome, also of a request that could not be carried out, whose response says why.
func (f *configurer) serve(req *line.Request, session jute.SessionID, remote net.Addr) (resp *jute.ConfigureResponse, code jute.Code) {
	var r jute.ConfigureRequest
	d := jute.NewDecoder(req.Body)
	r.Decode(&d)
	switch {
	case d.Err() != nil:
		return nil, jute.ErrMarshalling
	case !f.allows(req):
		return nil, jute.ErrNoAuth
	}
	text, err := f.carryOut(r)
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
