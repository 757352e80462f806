package jwt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
)

// Scheme is the name of the scheme.
const Scheme = "jwt"

const (
	maxToken    = 16 << 10 // bytes
	maxIdentity = 1024     // bytes
	lastExpiry  = 1 << 40  // seconds; a later end of a token is a mistake
)

// Algorithms are the signature algorithms that Config.Algorithms may have. There are no
// symmetric ones: everybody who can check their signatures can make them.
var Algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// Config configures a Provider.
type Config struct {
	// Issuer is the only issuer whose tokens count.
	Issuer string
	// Audiences are the names of this service, one of which a token must have.
	Audiences []string
	// Algorithms are the accepted signature algorithms.
	Algorithms []string
	// IDClaim is the claim that has the identity, such as "sub".
	IDClaim string
	// SuperUser is the identity that makes a connection super; "" means none.
	SuperUser string
	// Skew is how far the clocks of the issuer and of this server may differ.
	Skew time.Duration
	// Refresh is the age at which keys are read again.
	Refresh time.Duration
	// Fetch reads the issuer's JSON Web Key Set. It is called by one goroutine at a time.
	Fetch func(context.Context) ([]byte, error)
	// Failed is told why Fetch did not succeed, except by Load. It must not block.
	Failed func(error)
	// Now is the clock.
	Now func() time.Time
}

// Provider is the scheme jwt.
type Provider struct {
	cfg        Config
	algorithms []jose.SignatureAlgorithm
	keys       keySet
}

var _ auth.PacketProver = (*Provider)(nil)

// New returns the scheme, without keys. It does no I/O.
func New(cfg Config) (*Provider, error) {
	if cfg.Issuer == "" || len(cfg.Audiences) == 0 || cfg.IDClaim == "" || len(cfg.Algorithms) == 0 {
		return nil, errors.New("issuer, audience, claim of the identity and algorithms are required")
	}
	p := &Provider{cfg: cfg}
	for _, a := range cfg.Algorithms {
		if !slices.Contains(Algorithms, a) {
			return nil, fmt.Errorf("signature algorithm %q is not one of %s", a, strings.Join(Algorithms, ", "))
		}
		p.algorithms = append(p.algorithms, jose.SignatureAlgorithm(a))
	}
	p.keys.fetch, p.keys.refresh, p.keys.now, p.keys.failed = cfg.Fetch, cfg.Refresh, cfg.Now, cfg.Failed
	p.keys.ctx, p.keys.cancel = context.WithCancel(context.Background())
	return p, nil
}

// Load reads the keys, so that the first client need not wait for them, and a mistake is
// found at the start.
func (p *Provider) Load() error { return p.keys.load() }

// Stats are counts, and what there is.
type Stats struct {
	Reads, Failures uint64    // of the key set; Reads has the Failures
	Keys            int       // that tokens are checked with
	Read            time.Time // when these were read, zero if there are none
}

// Stats returns the figures of this moment.
func (p *Provider) Stats() Stats {
	st := Stats{Reads: p.keys.reads.Load(), Failures: p.keys.failures.Load()}
	if k := p.keys.current.Load(); k != nil {
		st.Keys, st.Read = len(k.list), k.read
	}
	return st
}

// Close ends a fetch that is under way, and all later ones. It does not wait.
func (p *Provider) Close() { p.keys.cancel() }

// Scheme returns "jwt".
func (*Provider) Scheme() string { return Scheme }

// Personal returns true.
func (*Provider) Personal() bool { return true }

// Valid reports whether expr can be an identity: a text that is not empty and has no
// control characters, of up to 1 KiB.
func (*Provider) Valid(expr string) bool {
	return expr != "" && len(expr) <= maxIdentity && utf8.ValidString(expr) && strings.IndexFunc(expr, unicode.IsControl) < 0
}

// Match reports whether the two are equal.
func (*Provider) Match(id, expr string) bool { return id == expr }

// refuse returns the error for a token that proves nothing. Reasons have no parts of the
// token, which is a secret.
func refuse(reason string) (auth.Proof, error) {
	return auth.Proof{}, fmt.Errorf("token refused: %s: %w", reason, jute.ErrAuthFailed)
}

// ProvePacket checks a token and returns its identity, which ends with the token. It may
// block for as long as a fetch of the keys takes: 5 s. For a token that is over it returns
// auth.ErrEnded.
func (p *Provider) ProvePacket(data []byte) (auth.Proof, error) {
	if len(data) > maxToken {
		return refuse("larger than 16 KiB")
	}
	token, err := jwt.ParseSigned(string(data), p.algorithms)
	if err != nil || len(token.Headers) != 1 {
		return refuse("malformed, or signed by an algorithm that zkd.jwt.algorithms does not have")
	}
	now := p.cfg.Now()
	var claims jwt.Claims
	if err := token.UnsafeClaimsWithoutVerification(&claims); err != nil || claims.Expiry == nil || *claims.Expiry > lastExpiry {
		return refuse("malformed claims, or none that says when it ends")
	}
	end := claims.Expiry.Time().Add(p.cfg.Skew)
	if !now.Before(end) {
		return auth.Proof{}, auth.ErrEnded
	}
	// What costs nothing is checked before the signature, whose key may have to be fetched.
	if reason := p.check(&claims, now); reason != "" {
		return refuse(reason)
	}
	var all map[string]any
	if !p.verify(token, &all) {
		return refuse("not signed by a known key of the issuer")
	}
	id, _ := all[p.cfg.IDClaim].(string)
	if !p.Valid(id) {
		return refuse("claim " + p.cfg.IDClaim + " has no identity")
	}
	proof := auth.Proof{IDs: []jute.ID{{Scheme: Scheme, ID: id}}, Until: end.UnixMilli()}
	if id == p.cfg.SuperUser {
		proof.IDs = append(proof.IDs, auth.Super(id))
	}
	return proof, nil
}

// check returns what is wrong with the claims, "" if nothing is.
func (p *Provider) check(claims *jwt.Claims, now time.Time) string {
	err := claims.ValidateWithLeeway(jwt.Expected{Issuer: p.cfg.Issuer, AnyAudience: p.cfg.Audiences, Time: now}, p.cfg.Skew)
	switch {
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return "of another issuer"
	case errors.Is(err, jwt.ErrInvalidAudience):
		return "for another audience"
	case err != nil:
		return "not valid yet"
	}
	return ""
}

// verify checks the signature, and decodes the claims that it covers.
func (p *Provider) verify(token *jwt.JSONWebToken, claims *map[string]any) bool {
	header := token.Headers[0]
	for _, key := range p.keys.find(header.KeyID, header.Algorithm) {
		if token.Claims(key, claims) == nil {
			return true
		}
	}
	return false
}
