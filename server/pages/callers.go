package pages

import (
	"context"
	"errors"
	"time"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients"
)

// Connect implements api.Options.
func (f *Server) Connect(ctx context.Context, c *api.Caller, visits bool) (api.Connection, error) {
	creds, err := f.Clients.Proofs().Prove(ctx, f.shows(c))
	if err != nil {
		return api.Connection{}, whyNot(ctx, err)
	}
	conn, err := f.Clients.Connect(&clients.Guest{Door: c.Via, Address: c.From, Secure: c.Secure, Credentials: creds, Visits: visits})
	if err != nil {
		return api.Connection{}, api.ErrRefused
	}
	return api.Connection{Conn: conn, Until: end(creds)}, nil
}

// SignIn implements login.Options.
func (f *Server) SignIn(ctx context.Context, c *api.Caller) (name string, until time.Time, err error) {
	creds, err := f.Clients.Proofs().SignIn(ctx, f.shows(c))
	if err != nil {
		return "", time.Time{}, whyNot(ctx, err)
	}
	return clients.Name(creds), end(creds), nil
}

// shows returns what a caller shows of itself.
func (f *Server) shows(c *api.Caller) *clients.Presented {
	return f.orCertificate(&clients.Presented{Address: fourletter.HostAddress(c.From.Addr()), Scheme: c.Scheme, Data: c.Data, Certificates: c.Certificates, Via: c.Via})
}

// orCertificate has the certificate of a connection be the proof of who shows no other one.
func (f *Server) orCertificate(p *clients.Presented) *clients.Presented {
	if certificates := f.Config.ClientTLS.AuthScheme; p.Scheme == "" && len(p.Certificates) > 0 && f.Schemes.Has(certificates) {
		p.Scheme = certificates
	}
	return p
}

// whyNot returns why a caller has proved nothing.
func whyNot(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, clients.ErrTooManyFailures):
		return api.ErrTooManyFailures
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return api.ErrUnauthorized
}

// end returns when the first of some identities ends, zero for never.
func end(creds *auth.Credentials) time.Time {
	if until := creds.Until(); until != 0 {
		return time.UnixMilli(until)
	}
	return time.Time{}
}

// Password implements api.Server.
func (f *Server) Password(id jute.SessionID) [jute.PasswordLen]byte {
	f.State.RLock()
	defer f.State.RUnlock()
	return f.State.Password(id)
}

// Ended implements api.Server.
func (f *Server) Ended(ctx context.Context, c *api.Caller, id jute.SessionID, code jute.Code) error {
	of := f.shows(c)
	creds, err := f.Clients.Proofs().Prove(ctx, of)
	if err != nil {
		return whyNot(ctx, err)
	}
	return f.Clients.Proofs().Ended(ctx, of, creds, id, code)
}

// Settings implements api.Server.
func (f *Server) Settings() []api.Setting {
	list := []api.Setting{}
	for _, s := range f.Configured.Live().Shown() {
		list = append(list, api.Setting{Key: s.Key, Value: s.Value, Unit: s.Unit, Default: s.Default, From: s.Origin.String(), Live: s.Live, Allowed: s.Allowed, Doc: s.Doc})
	}
	return list
}

// Try implements api.Server.
func (f *Server) Try(r jute.ConfigureRequest) (string, error) { return f.Configured.Try(r) }
