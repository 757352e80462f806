package auth

import (
	"crypto/x509"
	"fmt"

	"github.com/zkd-project/zkd/internal/steps"
	"github.com/zkd-project/zkd/jute"
)

// Names of the schemes that are treated specially.
const (
	schemeWorld  = "world"
	schemeAuth   = "auth"
	schemeSuper  = "super"
	schemeDigest = "digest"
	schemeIP     = "ip"
	schemeHolder = "holder"
	schemeEdge   = jute.SchemeEdge
)

// Super returns an identity that is allowed everything. The name is for whoAmI.
func Super(name string) jute.ID { return jute.ID{Scheme: schemeSuper, ID: name} }

// Config selects and configures the schemes.
type Config struct {
	// DigestEnabled turns the digest scheme on
	// (zookeeper.DigestAuthenticationProvider.enabled, there true by default).
	DigestEnabled bool
	// DigestAlg is the hash of the digest scheme by its Java name, such as "SHA-256"; ""
	// means SHA1. All servers and stored ACLs must agree on it.
	DigestAlg string
	// SuperDigest is the digest id "user:base64" that makes a connection super; "" means
	// none.
	SuperDigest string
	// SkipACL allows everything to everybody.
	SkipACL bool
	// Edges say for whom edges may speak, and Supers are the identities of super users, as scheme:name, for whom none may.
	Edges  []EdgeRule
	Supers []string
	// Providers are further schemes. One with the name of a built-in scheme takes its place.
	Providers []Provider
}

// Schemes is the set of configured schemes.
type Schemes struct {
	edges   edges
	table   map[string]Provider
	skipACL bool
	steps   *steps.Counter // of comparisons
	open    []jute.ACL     // everything to everybody, the ACL of most nodes
}

// New returns the schemes that cfg configures, or an error if it names an unknown hash or
// has a super user without a scheme to prove it.
func New(cfg Config) (*Schemes, error) {
	s := &Schemes{
		table:   map[string]Provider{schemeIP: ipProvider{}, schemeHolder: holderProvider{}},
		skipACL: cfg.SkipACL,
		open:    []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}},
	}
	if cfg.DigestEnabled {
		d, err := newDigestProvider(cfg.DigestAlg, cfg.SuperDigest)
		if err != nil {
			return nil, fmt.Errorf("set up digest scheme: %w", err)
		}
		s.table[schemeDigest] = d
	}
	for _, p := range cfg.Providers {
		s.table[p.Scheme()] = p
	}
	s.edges.supers = cfg.Supers
	s.SetEdges(cfg.Edges)
	return s, nil
}

// Authenticate handles an auth packet of a connection with these credentials, and returns
// them with those that the packet proves. It fails with jute.ErrAuthFailed if there is no
// such scheme, if the scheme takes no auth packets, if the packet proves nothing, or if the
// connection would have too many identities; the connection must be closed then. After
// ErrEnded it need not be.
func (s *Schemes) Authenticate(scheme string, data []byte, have *Credentials) (*Credentials, error) {
	if scheme == schemeEdge {
		return s.speakFor(jute.Text(data), have)
	}
	p, ok := s.table[scheme].(PacketProver)
	if !ok {
		return have, jute.ErrAuthFailed
	}
	proof, err := p.ProvePacket(data)
	if err != nil {
		return have, err
	}
	return have.With(proof)
}

// AuthenticateCertificate returns the credentials of a connection with those that the
// scheme finds in the client's certificate, which TLS has verified. It fails with
// jute.ErrAuthFailed if the scheme is not configured or takes no certificates.
func (s *Schemes) AuthenticateCertificate(scheme string, chain []*x509.Certificate, have *Credentials) (*Credentials, error) {
	p, ok := s.table[scheme].(CertificateProver)
	if !ok {
		return have, jute.ErrAuthFailed
	}
	proof, err := p.ProveCertificate(chain)
	if err != nil {
		return have, err
	}
	return have.With(proof)
}

// CountSteps has the schemes count their work. It must precede their use by others.
func (s *Schemes) CountSteps(c *steps.Counter) { s.steps = c }

// Has reports whether a scheme is configured.
func (s *Schemes) Has(scheme string) bool { return s.table[scheme] != nil }

// Allowed reports whether a connection with these identities may do an operation that
// needs any one of perms on a node with this ACL. An empty ACL allows everything, and
// super is allowed everything.
func (s *Schemes) Allowed(acl []jute.ACL, perms jute.Perms, ids []jute.ID) bool {
	if s.skipACL || len(acl) == 0 {
		return true
	}
	for i := range acl {
		if acl[i].Perms&perms != 0 && s.matches(&acl[i].ID, ids) {
			return true
		}
	}
	return IsSuper(ids)
}

// Memory has what Allowed has said about long lists, for what is done at a time: a request can have thousands of operations
// on nodes that share a list, and a transaction as many changes of them that a connection hears of. The zero Memory
// is empty.
type Memory struct {
	first   question
	allowed bool              // the answer to first
	more    map[question]bool // the answers to others
}

type question struct {
	list  *jute.ACL // the first entry: lists are never modified
	n     int
	perms jute.Perms
	ids   *jute.ID // likewise
}

// longList is the number of comparisons from which on an answer is remembered.
const longList = 64

// AllowedOnce is Allowed with a memory. It returns how many entries were compared with the identities, too, if that
// is worth counting.
func (s *Schemes) AllowedOnce(m *Memory, acl []jute.ACL, perms jute.Perms, ids []jute.ID) (allowed bool, looked int) {
	if len(acl)*len(ids) < longList {
		return s.Allowed(acl, perms, ids), 0
	}
	q := question{&acl[0], len(acl), perms, &ids[0]}
	if q == m.first {
		return m.allowed, 0
	}
	if allowed, ok := m.more[q]; ok {
		return allowed, 0
	}
	allowed = s.Allowed(acl, perms, ids)
	switch {
	case m.first.list == nil:
		m.first, m.allowed = q, allowed
	case m.more == nil:
		m.more = map[question]bool{q: allowed}
	default:
		m.more[q] = allowed
	}
	return allowed, len(acl)
}

// Forget empties the memory.
func (m *Memory) Forget() {
	if m.first.list != nil {
		*m = Memory{}
	}
}

// matches reports whether an ACL entry for this identity covers one of ids.
func (s *Schemes) matches(entry *jute.ID, ids []jute.ID) bool {
	if *entry == jute.WorldAnyone {
		return true
	}
	p, ok := s.table[entry.Scheme]
	if !ok {
		return false
	}
	s.steps.Add(len(ids))
	for i := range ids {
		if ids[i].Scheme == entry.Scheme && p.Match(ids[i].ID, entry.ID) {
			return true
		}
	}
	return false
}

// IsSuper reports whether the identities are those of a super user.
func IsSuper(ids []jute.ID) bool {
	for i := range ids {
		if ids[i].Scheme == schemeSuper {
			return true
		}
	}
	return false
}
