package pages

import (
	"context"
	"errors"
	"time"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/server/api"
	"github.com/zkd-project/zkd/server/clients"
)

// Connect implements api.Options. The certificate of a connection is an identity unless the caller shows another
// proof, as a ZooKeeper client's is.
func (f *Server) Connect(ctx context.Context, c *api.Caller, visits bool) (api.Connection, error) {
	shows := clients.Presented{Address: fourletter.HostAddress(c.From.Addr()), Scheme: c.Scheme, Data: c.Data, Certificates: c.Certificates}
	if certificates := f.Config.ClientTLS.AuthScheme; c.Scheme == "" && len(c.Certificates) > 0 && f.Schemes.Has(certificates) {
		shows.Scheme = certificates
	}
	creds, err := f.Clients.Proofs().Prove(ctx, &shows)
	switch {
	case errors.Is(err, clients.ErrTooManyFailures):
		return api.Connection{}, api.ErrTooManyFailures
	case ctx.Err() != nil:
		return api.Connection{}, context.Cause(ctx)
	case err != nil:
		return api.Connection{}, api.ErrUnauthorized
	}
	conn, err := f.Clients.Connect(&clients.Guest{Door: "http", Address: c.From, Secure: c.Secure, Credentials: creds, Visits: visits})
	if err != nil {
		return api.Connection{}, api.ErrRefused
	}
	of := api.Connection{Conn: conn}
	if until := creds.Until(); until != 0 {
		of.Until = time.UnixMilli(until)
	}
	return of, nil
}
