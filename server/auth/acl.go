package auth

import (
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// MaxEntries bounds the entries of a list that is written, after its "auth" entries are replaced: each use of the
// node compares them with all identities of a connection. Lists that come from elsewhere may have more.
const MaxEntries = 1024

// FixACL checks an ACL that a client with these identities wants to write, and returns
// the list to store: it drops exact duplicates (the first stays), then replaces each
// entry of scheme "auth" by one entry for each of ids whose scheme is personal. It fails
// with jute.ErrInvalidACL if the list is empty, if an entry names an unknown scheme or an
// id that its scheme refuses, if "auth" would stand for no identity, or if there are more than MaxEntries
// different entries.
//
// The returned list shares no memory with acl, whose strings may be in a reused buffer;
// it must not be modified.
func (s *Schemes) FixACL(acl []jute.ACL, ids []jute.ID) ([]jute.ACL, error) {
	if len(acl) == 1 && acl[0] == s.open[0] {
		return s.open, nil
	}
	different := distinct(acl)
	if len(different) > MaxEntries {
		return nil, jute.ErrInvalidACL
	}
	fixed := make([]jute.ACL, 0, len(different))
	for _, a := range different {
		n := len(fixed)
		switch {
		case a.ID == jute.WorldAnyone:
			fixed = append(fixed, jute.ACL{Perms: a.Perms, ID: jute.WorldAnyone})
		case a.ID.Scheme == schemeAuth:
			fixed = s.appendPersonal(fixed, a.Perms, ids)
		case s.valid(a.ID):
			id := jute.ID{Scheme: strings.Clone(a.ID.Scheme), ID: strings.Clone(a.ID.ID)}
			fixed = append(fixed, jute.ACL{Perms: a.Perms, ID: id})
		}
		if len(fixed) == n {
			return nil, jute.ErrInvalidACL
		}
		if len(fixed) > MaxEntries {
			if fixed = withoutRepeats(fixed); len(fixed) > MaxEntries {
				return nil, jute.ErrInvalidACL
			}
		}
	}
	if len(fixed) == 0 {
		return nil, jute.ErrInvalidACL
	}
	return fixed, nil
}

// appendPersonal appends an entry with these permissions for each of ids whose scheme is
// personal.
func (s *Schemes) appendPersonal(acl []jute.ACL, perms jute.Perms, ids []jute.ID) []jute.ACL {
	for _, id := range ids {
		if p := s.table[id.Scheme]; p != nil && p.Personal() {
			acl = append(acl, jute.ACL{Perms: perms, ID: id})
		}
	}
	return acl
}

// valid reports whether an ACL entry may name id. World and super have no row in the
// table: world has only "anyone", and super can't be named in an ACL.
func (s *Schemes) valid(id jute.ID) bool {
	p, ok := s.table[id.Scheme]
	return ok && p.Valid(id.ID)
}

// distinct returns acl without repetitions, in order; acl itself if there are none. Long
// lists need the map: a frame can hold 80,000 entries.
func distinct(acl []jute.ACL) []jute.ACL {
	if len(acl) <= 16 {
		for i := range acl {
			if slices.Contains(acl[:i], acl[i]) {
				return withoutRepeats(acl)
			}
		}
		return acl
	}
	return withoutRepeats(acl)
}

func withoutRepeats(acl []jute.ACL) []jute.ACL {
	seen := make(map[jute.ACL]bool, len(acl))
	out := make([]jute.ACL, 0, len(acl))
	for _, a := range acl {
		if !seen[a] {
			seen[a] = true
			out = append(out, a)
		}
	}
	return out
}

// Redact returns acl as getACL shows it to a client that may read the node but not
// administer it: the hash of each digest id is replaced by "x". It returns acl itself if
// there is nothing to hide.
func Redact(acl []jute.ACL) []jute.ACL {
	out := acl
	for i, a := range acl {
		user, _, secret := strings.Cut(a.ID.ID, ":")
		if a.ID.Scheme != schemeDigest || !secret {
			continue
		}
		if &out[0] == &acl[0] {
			out = slices.Clone(acl)
		}
		out[i].ID.ID = user + ":x"
	}
	return out
}

// Principal returns the identity by which a connection is shown where there is room for one: the
// first that somebody has issued, or else the first user of the scheme digest, which anybody
// can make up. ok is false if the connection has none but its address.
func Principal(ids []jute.ID) (id jute.ID, ok bool) {
	for _, i := range ids {
		switch {
		case i.Scheme == schemeIP, i.Scheme == schemeSuper:
		case i.Scheme != schemeDigest:
			return i, true
		case !ok:
			id, ok = i, true
		}
	}
	return id, ok
}

// Name returns the scheme and the name of an identity, without what may be secret.
func Name(id jute.ID) string { return id.Scheme + ":" + User(id) }

// User returns the name of an identity in whoAmI: for digest the user without the hash,
// for others the id itself.
func User(id jute.ID) string {
	if id.Scheme == schemeDigest {
		user, _, _ := strings.Cut(id.ID, ":")
		return user
	}
	return id.ID
}
