package certid

import (
	"crypto/x509"
	"fmt"
	"regexp"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
)

// Scheme is the name of the scheme.
const Scheme = "x509"

// Source is the part of a certificate that has the identity.
type Source int

const (
	// Subject takes the subject's distinguished name.
	Subject Source = iota
	// AltName takes a subject alternative name: see Rule.
	AltName
	// SPIFFE takes the SPIFFE ID.
	SPIFFE
)

// Rule selects an alternative name and the part of it that is the identity. LinkedIn's
// ZooKeeper has the same rules, but falls back to the subject where they don't apply.
type Rule struct {
	// Type is the kind of the name, by its number in RFC 5280: see AltNameTypes.
	Type int
	// Match must match exactly one of the names of this kind, anywhere in it.
	Match *regexp.Regexp
	// Extract is applied to that name; Group is the number of its group that is the
	// identity, 0 for all that it matches.
	Extract *regexp.Regexp
	Group   int
}

// Config configures a Provider.
type Config struct {
	From Source
	// Rule is for AltName.
	Rule Rule
	// SuperUser is the identity that makes a connection super; "" means none.
	SuperUser string
}

// Provider is the scheme x509.
type Provider struct{ cfg Config }

var _ auth.CertificateProver = (*Provider)(nil)

// New returns the scheme, or an error if the rule can't work.
func New(cfg Config) (*Provider, error) {
	if cfg.From == AltName {
		if err := cfg.Rule.check(); err != nil {
			return nil, err
		}
	}
	return &Provider{cfg}, nil
}

// Scheme returns "x509".
func (*Provider) Scheme() string { return Scheme }

// Personal returns true.
func (*Provider) Personal() bool { return true }

// ProveCertificate returns the identity of the first certificate of the chain. It fails
// with jute.ErrAuthFailed if the rule finds none there.
func (p *Provider) ProveCertificate(chain []*x509.Certificate) (auth.Proof, error) {
	if len(chain) == 0 {
		return auth.Proof{}, fmt.Errorf("no certificate: %w", jute.ErrAuthFailed)
	}
	id, err := p.identity(chain[0])
	if err != nil {
		return auth.Proof{}, fmt.Errorf("%w: %w", err, jute.ErrAuthFailed)
	}
	if id == "" {
		return auth.Proof{}, nil
	}
	ids := []jute.ID{{Scheme: Scheme, ID: id}}
	if id == p.cfg.SuperUser {
		ids = []jute.ID{auth.Super(id), ids[0]}
	}
	return auth.Proof{IDs: ids}, nil
}

func (p *Provider) identity(cert *x509.Certificate) (string, error) {
	switch p.cfg.From {
	case AltName:
		return p.cfg.Rule.apply(cert)
	case SPIFFE:
		return spiffeID(cert)
	}
	return nameString(cert.RawSubject)
}

// Valid reports whether expr is a distinguished name as Java reads it, or the kind of
// identity that certificates have here.
func (p *Provider) Valid(expr string) bool {
	switch p.cfg.From {
	case AltName:
		return validText(expr)
	case SPIFFE:
		return validSPIFFE(expr) || validName(expr)
	}
	return validName(expr)
}

// Match reports whether the two are equal.
func (p *Provider) Match(id, expr string) bool { return id == expr }
