package auth

import (
	"fmt"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// Names of the schemes that are treated specially.
const (
	schemeWorld  = "world"
	schemeAuth   = "auth"
	schemeSuper  = "super"
	schemeDigest = "digest"
	schemeIP     = "ip"
)

// maxIDBytes bounds the identities of one connection, whose client could add
// new ones without end: names and idOverhead for each.
const (
	maxIDBytes = 64 << 10
	idOverhead = 32
)

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
}

// scheme is a row of the table. It defines the identities of a scheme.
type scheme struct {
	// prove returns the identities that the payload of an auth packet proves. Nil means
	// that the scheme has no auth packets.
	prove func(data []byte) []jute.ID
	// valid reports whether an ACL entry may have expr. Nil means that none may.
	valid func(expr string) bool
	// match reports whether expr covers the identity id.
	match func(id, expr string) bool
	// personal schemes distinguish users: "auth" stands for their identities.
	personal bool
}

// Schemes is the set of configured schemes.
type Schemes struct {
	table   map[string]scheme
	skipACL bool
	open    []jute.ACL // everything to everybody, the ACL of most nodes
}

// New returns the schemes that cfg configures, or an error if it names an unknown hash or
// has a super user without a scheme to prove it.
func New(cfg Config) (*Schemes, error) {
	s := &Schemes{
		table:   map[string]scheme{schemeIP: ipScheme()},
		skipACL: cfg.SkipACL,
		open:    []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}},
	}
	if cfg.DigestEnabled {
		d, err := digestScheme(cfg.DigestAlg, cfg.SuperDigest)
		if err != nil {
			return nil, fmt.Errorf("set up digest scheme: %w", err)
		}
		s.table[schemeDigest] = d
	}
	return s, nil
}

// Authenticate handles an auth packet of a connection that has the identities ids. It
// returns ids with those of the packet added, without duplicates; ids itself is not
// changed. It fails with jute.ErrAuthFailed if there is no such scheme, if the scheme
// takes no auth packets, if data is nil, which proves no user, or if the connection would
// have more than 64 KiB of identities; the connection must be closed then.
func (s *Schemes) Authenticate(name string, data []byte, ids []jute.ID) ([]jute.ID, error) {
	sch, ok := s.table[name]
	if !ok || sch.prove == nil || data == nil && sch.personal {
		return ids, jute.ErrAuthFailed
	}
	added := slices.Clip(ids) // appending to it copies
	for _, id := range sch.prove(data) {
		if !slices.Contains(added, id) {
			added = append(added, id)
		}
	}
	if len(added) > len(ids) && sizeOf(added) > maxIDBytes {
		return ids, jute.ErrAuthFailed
	}
	return added, nil
}

func sizeOf(ids []jute.ID) int {
	n := 0
	for i := range ids {
		n += len(ids[i].Scheme) + len(ids[i].ID) + idOverhead
	}
	return n
}

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
	return isSuper(ids)
}

// matches reports whether an ACL entry for this identity covers one of ids.
func (s *Schemes) matches(entry *jute.ID, ids []jute.ID) bool {
	if *entry == jute.WorldAnyone {
		return true
	}
	sch, ok := s.table[entry.Scheme]
	if !ok {
		return false
	}
	for i := range ids {
		if ids[i].Scheme == entry.Scheme && sch.match(ids[i].ID, entry.ID) {
			return true
		}
	}
	return false
}

func isSuper(ids []jute.ID) bool {
	for i := range ids {
		if ids[i].Scheme == schemeSuper {
			return true
		}
	}
	return false
}
