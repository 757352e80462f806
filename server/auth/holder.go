package auth

import (
	"iter"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// holderProvider is the scheme whose entries cover the session that holds a place in the
// tree: see AllowedHolder. No connection has an identity of it.
type holderProvider struct{}

func (holderProvider) Scheme() string { return schemeHolder }
func (holderProvider) Personal() bool { return false }

func (holderProvider) Valid(expr string) bool {
	_, ok := parsePlace(expr)
	return ok
}

func (holderProvider) Match(_, _ string) bool { return false }

// place is what an entry of the scheme holder names.
type place struct {
	path    string // a znode, or the parent of the contenders
	pattern string // of the contenders' names, ending with *, which matches any characters; "" if any name counts
}

// parsePlace parses the id of an entry: the path of a znode. If its last element has a *, the
// element is a pattern of contenders' names, and must end with * for their numbers.
func parsePlace(expr string) (p place, ok bool) {
	if jute.ValidatePath(expr) != nil {
		return place{}, false
	}
	last := expr[strings.LastIndexByte(expr, '/')+1:]
	if !strings.Contains(last, "*") {
		return place{path: expr}, true
	}
	return place{jute.Parent(expr), last}, strings.HasSuffix(last, "*")
}

// number returns the number of a contender, and false if a name is none. A hyphen before ten
// digits is the sign if another hyphen or the pattern's end precedes it.
func (p *place) number(name string) (n int32, ok bool) {
	if p.pattern != "" && !matches(name, p.pattern) {
		return 0, false
	}
	n, ok = jute.Sequence(name, 10)
	if negative, may := jute.Sequence(name, 11); may {
		stem := name[:len(name)-11]
		if !ok || strings.HasSuffix(stem, "-") || p.pattern != "" && matches(stem, p.pattern[:len(p.pattern)-1]) {
			return negative, true
		}
	}
	return n, ok
}

// matches reports whether a name matches a pattern, in which * matches any characters.
func matches(name, pattern string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return name == pattern
	}
	name, ok := strings.CutPrefix(name, first)
	for ok {
		var part string
		if part, rest, star = strings.Cut(rest, "*"); !star {
			return strings.HasSuffix(name, part)
		}
		_, name, ok = strings.Cut(name, part)
	}
	return false
}

// State is the state of the tree in which a holder is looked up.
type State interface {
	// Owner returns the owner of the znode at path, and whether there is one.
	Owner(path string) (jute.Owner, bool)
	// Children yields the names of the children of the znode at path, in any order.
	// It may also yield names of znodes that no longer exist.
	Children(path string) iter.Seq[string]
}

// MaxContenders is the number of children that may be looked at for one request; each counts as one more for
// every 256 bytes of its parent's path. When they are used up, no further entry of the scheme holder allows anything.
const MaxContenders = 20_000

// AllowedHolder reports whether an entry of the scheme holder allows a session an operation
// that needs any one of perms on a znode with this ACL. It is for callers that Allowed has
// refused. The id of such an entry is the path of a znode, or a pattern of names:
//
//	/leader            the owner of the ephemeral /leader
//	/locks/a           if /locks/a is not ephemeral: the owner of its first ephemeral child
//	/locks/a/*-lock-*  the same among the children with such names
//
// Only children count whose names end with a sequential znode's number, which defines their
// order. looked counts the children that were looked at for the request. state may raise it, too.
func (s *Schemes) AllowedHolder(acl []jute.ACL, perms jute.Perms, session jute.SessionID, state State, looked *int) bool {
	if session == 0 || s.table[schemeHolder] != (holderProvider{}) {
		return false
	}
	for i := range acl {
		if acl[i].Perms&perms != 0 && acl[i].ID.Scheme == schemeHolder && holds(acl[i].ID.ID, session, state, looked) {
			return true
		}
	}
	return false
}

// holds reports whether a session holds the place that an entry names.
func holds(expr string, session jute.SessionID, state State, looked *int) bool {
	p, ok := parsePlace(expr)
	if !ok {
		return false
	}
	if p.pattern == "" {
		owner, ok := state.Owner(p.path)
		if !ok || owner.Ephemeral() {
			return ok && owner.Session() == session
		}
	}
	prefix := strings.TrimSuffix(p.path, "/") + "/"
	var firstName string
	var first int32
	var holder jute.SessionID
	for name := range state.Children(p.path) {
		if *looked += 1 + len(prefix)/256; *looked > MaxContenders {
			return false
		}
		n, ok := p.number(name)
		if !ok || holder != 0 && !jute.Precedes(n, first) && (n != first || name >= firstName) {
			continue
		}
		if owner, ok := state.Owner(prefix + name); ok && owner.Ephemeral() {
			firstName, first, holder = name, n, owner.Session()
		}
	}
	return holder == session && *looked <= MaxContenders
}
