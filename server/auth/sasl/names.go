package sasl

import (
	"errors"
	"fmt"
	"strings"
)

// Names makes ids of principals.
type Names struct {
	// RemoveHost and RemoveRealm leave these parts out
	// (kerberos.removeHostFromPrincipal, kerberos.removeRealmFromPrincipal).
	RemoveHost, RemoveRealm bool
	// DefaultRealm is the realm whose principals the rule DEFAULT applies to.
	DefaultRealm string
	// Rules map a principal to a short name (security.auth_to_local). nil is DEFAULT.
	Rules Rules
}

// id returns the id of a principal: the short name that the rules give it, and the host
// and the realm unless they are to be removed. A principal to which no rule applies is its
// own id. A name without a realm is that of a user, and its own id.
func (n Names) id(principal string) (string, error) {
	p, err := parsePrincipal(principal)
	if err != nil || !p.hasRealm {
		return principal, err
	}
	short, ok := n.Rules.shortName(p, n.DefaultRealm)
	if !ok {
		return principal, nil
	}
	if p.hasHost && !n.RemoveHost {
		short += "/" + p.host
	}
	if !n.RemoveRealm {
		short += "@" + p.realm
	}
	return short, nil
}

// principal is a name of Kerberos: name[/host]@realm. Without a realm it is the plain name
// of a user, which may have slashes.
type principal struct {
	name, host, realm string
	hasHost, hasRealm bool
}

var errPrincipal = errors.New("is not a principal: name, name@REALM or name/host@REALM")

// parsePrincipal takes what Apache's KerberosName takes.
func parsePrincipal(s string) (p principal, err error) {
	name, realm, hasRealm := strings.Cut(s, "@")
	if !hasRealm {
		return principal{name: s}, nil
	}
	p = principal{realm: realm, hasRealm: true}
	p.name, p.host, p.hasHost = strings.Cut(name, "/")
	if strings.ContainsAny(p.realm, "/@") || strings.Contains(p.host, "/") {
		return principal{}, fmt.Errorf("%.100q %w", s, errPrincipal)
	}
	return p, nil
}
