package pages

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/admin"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients"
	"github.com/zkd-project/zkd/server/state"
)

// visitor is the sender of a request to the admin pages. What it may see is decided as for a
// connection, by the same limits, schemes and requirements, and whenever something is sent:
// its identities may end while an answer is under way.
type visitor struct {
	creds   *auth.Credentials
	schemes *auth.Schemes
	clients *clients.Clients
	lists   auth.Memory // of mayRead
}

// welcome returns the visitor that a claim proves, or an HTTP status and the reason why there is
// none.
func (f *Server) welcome(ctx context.Context, c admin.Claim) (v *visitor, status int, problem string) {
	creds, err := f.Clients.Proofs().Prove(ctx, f.orCertificate(&clients.Presented{Address: fourletter.HostAddress(c.From), Scheme: c.Scheme, Data: c.Data, Certificates: c.Certificates}))
	v = &visitor{creds: creds, schemes: f.Schemes, clients: f.Clients}
	switch {
	case errors.Is(err, clients.ErrTooManyFailures):
		return nil, http.StatusTooManyRequests, "Too many failed authentications"
	case err != nil, !v.admitted():
		return nil, http.StatusUnauthorized, "Not authenticated"
	}
	return v, 0, ""
}

// ids returns the identities that have not ended.
func (v *visitor) ids() []jute.ID {
	if v.whole() {
		return v.creds.IDs()
	}
	return v.creds.At(time.Now().UnixMilli()).IDs()
}

// whole reports whether no identity has ended, which may be what the visitor's request stands on.
func (v *visitor) whole() bool {
	until := v.creds.Until()
	return until == 0 || time.Now().UnixMilli() < until
}

// admitted reports whether the visitor has logged in, if clients must (enforce.auth). There
// is no SASL over HTTP, so the super user always has.
func (v *visitor) admitted() bool {
	ids := v.ids()
	return auth.IsSuper(ids) || v.clients.Proofs().Admits(ids) == nil
}

// mayRead reports whether an ACL list allows the visitor to read. One goroutine calls it.
func (v *visitor) mayRead(acl []jute.ACL) bool {
	allowed, _ := v.schemes.AllowedOnce(&v.lists, acl, jute.PermRead, v.ids())
	return allowed
}

// administers reports whether the visitor has all permissions on the root.
func (v *visitor) administers(state *state.State) bool {
	if !v.admitted() {
		return false
	}
	ids := v.ids()
	state.RLock()
	defer state.RUnlock()
	root, _ := state.Tree.Get("/")
	for perm := jute.PermRead; perm <= jute.PermAdmin; perm <<= 1 {
		if !v.schemes.Allowed(root.ACL, perm, ids) {
			return false
		}
	}
	return true
}

// Authorize decides whether the sender of a request has all permissions on the root. may
// decides it again.
func (f *Server) Authorize(ctx context.Context, c admin.Claim) (may func() bool, status int, problem string) {
	v, status, problem := f.welcome(ctx, c)
	if v == nil {
		return nil, status, problem
	}
	may = func() bool { return v.administers(f.State) }
	if !may() {
		return nil, http.StatusForbidden, "Not authorized"
	}
	return may, http.StatusOK, ""
}
