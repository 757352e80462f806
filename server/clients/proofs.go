package clients

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/auth/sasl"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/monitor"
)

// ErrTooManyFailures means that too many credentials that came from an address, or that were for
// one name, were wrong. The credential is not looked at.
var ErrTooManyFailures = errors.New("too many failed authentications from this address, or for this name")

// errNoLogin means that credentials prove none of the identities that enforce.auth.schemes asks for.
var errNoLogin = errors.New("none of the identities that enforce.auth.schemes asks for")

// Proofs takes what clients present to prove who they are, by whatever door they come: connections, and the HTTP
// ports. They share one limit of failures.
type Proofs struct {
	log          *zap.Logger
	metrics      *monitor.Metrics
	schemes      *auth.Schemes
	live         *atomic.Pointer[config.Config]
	audit        *atomic.Pointer[auditor]
	now          func() time.Duration
	stopping     <-chan struct{}  // closed when the server stops
	failures     *limits.Failures // by address, and by name
	superUser    string           // "" for none
	certificates string           // the scheme for certificates
	sasl         *sasl.Server     // nil if there is none
	saslMayFail  bool             // a client whose login by SASL fails stays
}

func newProofs(o *Options, live *atomic.Pointer[config.Config], audit *atomic.Pointer[auditor], stopping <-chan struct{}) *Proofs {
	p := &Proofs{
		log: o.Logger, metrics: o.Metrics, schemes: o.Schemes, live: live, audit: audit, now: o.Backend.Now, stopping: stopping,
		failures: limits.NewFailures(o.Config.AuthFailuresPerSecond), certificates: o.Config.ClientTLS.AuthScheme, saslMayFail: o.Config.SASL.AllowFailed,
	}
	p.superUser, _, _ = strings.Cut(o.Config.SuperDigest.Reveal(), ":")
	if !o.Config.SASL.On {
		return p
	}
	p.sasl = sasl.NewServer(o.Config.SASL.Config)
	if f := o.Config.SASL.UsersFile; f != nil {
		f.OnError(func(err error) { p.log.Warn("the users of before may still log in", zap.Error(err)) })
	}
	if k := o.Config.SASL.Kerberos; k != nil {
		k.OnError(func(err error) {
			p.log.Warn("the changed keytab can't be used: staying with what it was", zap.Error(err))
		})
	}
	return p
}

// beginAttempt begins an attempt to prove an identity, and calls wait if its turn has yet to
// come. name is whom the credential is for, "" for nobody in particular. Each door by which
// clients present credentials begins with it, and calls End of what it returns.
func (p *Proofs) beginAttempt(address, name string, wait func(time.Duration) error) (limits.Attempt, error) {
	a, ok := p.failures.Begin(address, name, p.now())
	if a.First {
		p.log.Warn("many failed authentications from one address, or for one name: further attempts are delayed",
			zap.String("address", address), zap.String("name", name), zap.Int("failures_per_second", p.live.Load().AuthFailuresPerSecond))
	}
	switch {
	case !ok:
		p.metrics.AuthRefused.Add(1)
		return a, ErrTooManyFailures
	case a.Delay == 0:
		return a, nil
	}
	p.metrics.AuthDelayed.Add(1)
	return a, wait(a.Delay)
}

// prove adds what an auth packet proves to the credentials of its sender. wrong says that it
// was a failed guess, which need not be an error: the name of the super user with another
// password is another user.
func (p *Proofs) prove(r *jute.AuthRequest, have *auth.Credentials, address string, wait func(time.Duration) error) (creds *auth.Credentials, wrong bool, err error) {
	name, mayFail := p.guessable(r)
	if !mayFail {
		creds, err = p.schemes.Authenticate(r.Scheme, r.Auth, have)
		return creds, false, err
	}
	attempt, err := p.beginAttempt(address, name, wait)
	if err != nil {
		return have, true, err
	}
	creds, err = p.schemes.Authenticate(r.Scheme, r.Auth, have)
	switch {
	case errors.Is(err, auth.ErrEnded):
	case err != nil:
		wrong = true
	default:
		wrong = r.Scheme == "digest" && !auth.IsSuper(creds.IDs())
	}
	attempt.End(wrong, p.now())
	return creds, wrong, err
}

// guessable reports whether an auth packet can be wrong, and for whom it is. Each name and
// password is an identity of the digest scheme, but only one is the super user.
func (p *Proofs) guessable(r *jute.AuthRequest) (name string, mayFail bool) {
	switch r.Scheme {
	case "ip", "ensemble", jute.SchemeEdge: // there is nothing to be guessed
		return "", false
	case "digest":
		user, _, _ := strings.Cut(jute.Text(r.Auth), ":")
		return "digest:" + user, p.superUser != "" && user == p.superUser
	}
	return "", true
}

// proveCertificate adds what a certificate proves, which TLS has verified.
func (p *Proofs) proveCertificate(scheme string, chain []*x509.Certificate, have *auth.Credentials, address string, wait func(time.Duration) error) (*auth.Credentials, error) {
	attempt, err := p.beginAttempt(address, "", wait)
	if err != nil {
		return have, err
	}
	creds, err := p.schemes.AuthenticateCertificate(scheme, chain, have)
	attempt.End(err != nil, p.now())
	return creds, err
}

// Presented is what somebody presents who has no connection of this protocol: a scheme with
// what addAuth would have, or a certificate that TLS has verified.
type Presented struct {
	Address      string
	Scheme, Data string // empty for none
	Certificates []*x509.Certificate
	Via          string // the door, for the audit log
}

// Prove returns the credentials that somebody without a connection of this protocol proves, under
// the same limit of failures as connections. It waits for the turn of the attempt. The error is
// ErrTooManyFailures, the end of ctx, or the reason why nothing is proved.
func (p *Proofs) Prove(ctx context.Context, of *Presented) (*auth.Credentials, error) {
	have := auth.NewCredentials(jute.ID{Scheme: "ip", ID: of.Address})
	wait := func(d time.Duration) error {
		turn := time.NewTimer(d)
		defer turn.Stop()
		select {
		case <-turn.C:
			return nil
		case <-p.stopping:
			return errHangUp
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	var wrong bool
	var err error
	switch {
	case of.Scheme == "":
		return have, nil
	case of.Scheme == p.certificates && len(of.Certificates) > 0:
		have, err = p.proveCertificate(of.Scheme, of.Certificates, have, of.Address, wait)
	default:
		have, wrong, err = p.prove(&jute.AuthRequest{Scheme: of.Scheme, Auth: []byte(of.Data)}, have, of.Address, wait)
	}
	if err != nil {
		p.metrics.AuthFailed.Add(1)
	}
	if wrong || err != nil {
		p.audit.Load().failedElsewhere(of)
	}
	return have, err
}

// SignIn is Prove for a sign-in, before any request. The proof has to be one that admits clients,
// and is audited as that of a connection.
func (p *Proofs) SignIn(ctx context.Context, of *Presented) (*auth.Credentials, error) {
	creds, err := p.Prove(ctx, of)
	if err != nil {
		return nil, err
	}
	ids := creds.IDs()
	if err := p.Admits(ids); err != nil && !auth.IsSuper(ids) {
		p.audit.Load().failedElsewhere(of)
		return nil, err
	}
	a := p.audit.Load()
	if err := a.wait(a.authenticated(author{ip: of.Address, ids: ids, door: of.Via}, &jute.AuthRequest{Scheme: of.Scheme}, 0), ctx.Done()); err != nil {
		return nil, err
	}
	return creds, nil
}

// Ended makes the audit log's entry about a session that an operator has ended, or, with a code, could not end.
func (p *Proofs) Ended(ctx context.Context, of *Presented, creds *auth.Credentials, id jute.SessionID, code jute.Code) error {
	a := p.audit.Load()
	return a.wait(a.ended(author{ip: of.Address, ids: creds.IDs(), door: of.Via}, id, code), ctx.Done())
}

// Admits returns an error unless clients with these identities may make requests, given
// enforce.auth.schemes.
func (p *Proofs) Admits(ids []jute.ID) error {
	live := p.live.Load()
	if !live.EnforceAuth {
		return nil
	}
	for _, id := range ids {
		if slices.Contains(live.EnforceAuthSchemes, id.Scheme) {
			return nil
		}
	}
	return errNoLogin
}
