package clients

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/limits"
)

// ErrTooManyFailures means that too many credentials that came from an address, or that were for
// one name, were wrong. The credential is not looked at.
var ErrTooManyFailures = errors.New("too many failed authentications from this address, or for this name")

// errNoLogin means that credentials prove none of the identities that enforce.auth.schemes asks for.
var errNoLogin = errors.New("none of the identities that enforce.auth.schemes asks for")

// beginAttempt begins an attempt to prove an identity, and calls wait if its turn has yet to
// come. name is whom the credential is for, "" for nobody in particular. Each door by which
// clients present credentials begins with it, and calls End of what it returns.
func (s *Clients) beginAttempt(address, name string, wait func(time.Duration) error) (limits.Attempt, error) {
	a, ok := s.failures.Begin(address, name, s.now())
	if a.First {
		s.log.Warn("many failed authentications from one address, or for one name: further attempts are delayed",
			zap.String("address", address), zap.String("name", name), zap.Int("failures_per_second", s.live.Load().AuthFailuresPerSecond))
	}
	switch {
	case !ok:
		s.metrics.AuthRefused.Add(1)
		return a, ErrTooManyFailures
	case a.Delay == 0:
		return a, nil
	}
	s.metrics.AuthDelayed.Add(1)
	return a, wait(a.Delay)
}

// prove adds what an auth packet proves to the credentials of its sender. wrong says that it
// was a failed guess, which need not be an error: the name of the super user with another
// password is another user.
func (s *Clients) prove(r *jute.AuthRequest, have *auth.Credentials, address string, wait func(time.Duration) error) (creds *auth.Credentials, wrong bool, err error) {
	name, mayFail := s.guessable(r)
	if !mayFail {
		creds, err = s.schemes.Authenticate(r.Scheme, r.Auth, have)
		return creds, false, err
	}
	attempt, err := s.beginAttempt(address, name, wait)
	if err != nil {
		return have, true, err
	}
	creds, err = s.schemes.Authenticate(r.Scheme, r.Auth, have)
	switch {
	case errors.Is(err, auth.ErrEnded):
	case err != nil:
		wrong = true
	default:
		wrong = r.Scheme == "digest" && !auth.IsSuper(creds.IDs())
	}
	attempt.End(wrong, s.now())
	return creds, wrong, err
}

// guessable reports whether an auth packet can be wrong, and for whom it is. Each name and
// password is an identity of the digest scheme, but only one is the super user.
func (s *Clients) guessable(r *jute.AuthRequest) (name string, mayFail bool) {
	switch r.Scheme {
	case "ip", "ensemble": // there is nothing to be guessed
		return "", false
	case "digest":
		user, _, _ := strings.Cut(jute.Text(r.Auth), ":")
		return "digest:" + user, s.superUser != "" && user == s.superUser
	}
	return "", true
}

// proveCertificate adds what a certificate proves, which TLS has verified.
func (s *Clients) proveCertificate(scheme string, chain []*x509.Certificate, have *auth.Credentials, address string, wait func(time.Duration) error) (*auth.Credentials, error) {
	attempt, err := s.beginAttempt(address, "", wait)
	if err != nil {
		return have, err
	}
	creds, err := s.schemes.AuthenticateCertificate(scheme, chain, have)
	attempt.End(err != nil, s.now())
	return creds, err
}

// Presented is what somebody presents who has no connection of this protocol: a scheme with
// what addAuth would have, or a certificate that TLS has verified.
type Presented struct {
	Address      string
	Scheme, Data string // empty for none
	Certificates []*x509.Certificate
}

// Prove returns the credentials that somebody without a connection of this protocol proves, under
// the same limit of failures as connections. It waits for the turn of the attempt. The error is
// ErrTooManyFailures, the end of ctx, or the reason why nothing is proved.
func (s *Clients) Prove(ctx context.Context, p *Presented) (*auth.Credentials, error) {
	have := auth.NewCredentials(jute.ID{Scheme: "ip", ID: p.Address})
	wait := func(d time.Duration) error {
		turn := time.NewTimer(d)
		defer turn.Stop()
		select {
		case <-turn.C:
			return nil
		case <-s.refusing:
			return errHangUp
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	var wrong bool
	var err error
	switch {
	case p.Scheme == "":
		return have, nil
	case p.Scheme == s.cfg.ClientTLS.AuthScheme && len(p.Certificates) > 0:
		have, err = s.proveCertificate(p.Scheme, p.Certificates, have, p.Address, wait)
	default:
		have, wrong, err = s.prove(&jute.AuthRequest{Scheme: p.Scheme, Auth: []byte(p.Data)}, have, p.Address, wait)
	}
	if err != nil {
		s.metrics.AuthFailed.Add(1)
	}
	if wrong || err != nil {
		s.audit.Load().failedElsewhere(p.Address, p.Scheme)
	}
	return have, err
}

// Admits returns an error unless clients with these identities may make requests, given
// enforce.auth.schemes.
func (s *Clients) Admits(ids []jute.ID) error {
	live := s.live.Load()
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

// awaitTurn waits for the turn of an attempt of the connection's client. It blocks only the
// connection's own reader.
func (c *conn) awaitTurn(delay time.Duration) error {
	c.submitBatch()
	c.flush()
	turn := time.NewTimer(delay)
	defer turn.Stop()
	select {
	case <-turn.C:
		return nil
	case <-c.clients.refusing:
		return errHangUp
	case <-c.done:
		return net.ErrClosed
	}
}
