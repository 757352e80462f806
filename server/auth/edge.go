package auth

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/jute"
)

// Faults of the rules for edges.
var (
	edgeAnybody  = mutant.New("edge-anybody")   // an edge may speak for everybody, and not only for the users of its rules
	edgeAnyHost  = mutant.New("edge-any-host")  // the rules of an edge are for everybody
	edgeSuper    = mutant.New("edge-super")     // an edge may speak for a super user
	edgeTwice    = mutant.New("edge-twice")     // a client for which an edge has spoken may speak for others
	edgeKeepsOwn = mutant.New("edge-keeps-own") // the client of an edge has the edge's rights, too
	edgeOutlives = mutant.New("edge-outlives")  // the client keeps its identity when that of the edge has ended
	edgeKept     = mutant.New("edge-kept")      // the client keeps its identity when the rule has gone
	edgeUnnamed  = mutant.New("edge-unnamed")   // nobody learns which edge has spoken
	edgeCrosses  = mutant.New("edge-crosses")   // a "*" stands for any text
)

// An EdgeRule says for whom some edges may speak. An edge is a proxy on a host: it connects as itself, and then names one of the users as its
// client, by an auth packet of the scheme edge. From there on the connection has that identity instead of the edge's own,
// or none but its address, if the edge names nobody. An edge without a rule can't do either.
//
// The names of Edge and Users may have "*", which stands for any text without the characters of bounds.
type EdgeRule struct {
	Name  string // by which operators know it
	Edge  jute.ID
	Users []jute.ID
}

// bounds are the characters that end parts of names: of distinguished names, principals and SPIFFE IDs.
const bounds = `,+=/@\`

// NewEdgeRule returns the rule for an edge and its users, each written as scheme:name.
func NewEdgeRule(edge string, users ...string) (r EdgeRule, err error) {
	if r.Edge, err = parsePattern(edge); err != nil {
		return r, err
	}
	for _, user := range users {
		id, err := parsePattern(user)
		if err != nil {
			return r, err
		}
		r.Users = append(r.Users, id)
	}
	return r, nil
}

// IDs returns the identities in the rule: the edge's, and those of the users.
func (r *EdgeRule) IDs() []jute.ID { return append([]jute.ID{r.Edge}, r.Users...) }

func parsePattern(text string) (jute.ID, error) {
	scheme, name, _ := strings.Cut(text, ":")
	switch {
	case scheme == "" || name == "":
		return jute.ID{}, fmt.Errorf("%q is no identity: want scheme:name, such as sasl:ann or \"x509:CN=web-*,O=Acme\"; one with spaces is in quotes", text)
	case !Personal(scheme):
		return jute.ID{}, fmt.Errorf("%q: the scheme %s is not one of those that tell users apart: digest, jwt, sasl and x509", text, scheme)
	case scheme == schemeDigest && strings.Contains(name, "*"):
		return jute.ID{}, fmt.Errorf("%q: an identity of digest is given in full, as user:hash, since anybody can have any user name", text)
	}
	return jute.ID{Scheme: scheme, ID: name}, nil
}

// Personal reports whether a scheme, if it is configured, tells users apart, by what they prove.
func Personal(scheme string) bool {
	return slices.Contains([]string{schemeDigest, "jwt", "sasl", "x509"}, scheme)
}

// Covers reports whether a pattern covers an identity.
func Covers(pattern, id jute.ID) bool { return pattern.Scheme == id.Scheme && fits(pattern.ID, id.ID) }

// fits reports whether a name is one of a pattern. When it fails, the last "*" takes one more byte: an earlier one can't help, as none goes beyond a bound.
func fits(pattern, name string) bool {
	p, star, taken := 0, -1, 0
	for n := 0; n < len(name); {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, taken = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star < 0 || isBound(name[taken]):
			return false
		default:
			taken++
			p, n = star+1, taken
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

func isBound(c byte) bool {
	if edgeCrosses.Planted() {
		return false
	}
	return strings.IndexByte(bounds, c) >= 0
}

// edges are the rules of a server.
type edges struct {
	supers []string
	rules  atomic.Pointer[[]EdgeRule]
}

// SetEdges replaces the rules. Connections for which an edge has spoken keep what it has said: see StillSpeaks.
func (s *Schemes) SetEdges(rules []EdgeRule) { s.edges.rules.Store(&rules) }

// speakFor returns the credentials of the client that an edge with these speaks for. They replace its own.
func (s *Schemes) speakFor(user string, have *Credentials) (*Credentials, error) {
	var id jute.ID
	if user != "" {
		id.Scheme, id.ID, _ = strings.Cut(user, ":")
	}
	again := have != nil && have.edge != (jute.ID{})
	again = again && !edgeTwice.Planted()
	if again {
		return have, fmt.Errorf("an edge has spoken on this connection already: %w", jute.ErrAuthFailed)
	}
	for i, edge := range have.IDs() {
		if s.maySpeak(edge, id) {
			return have.spoken(i, id), nil
		}
	}
	return have, fmt.Errorf("it may not speak for %q (zkd.edge): %w", user, jute.ErrAuthFailed)
}

// maySpeak reports whether an edge may speak for a user, the zero ID for nobody.
func (s *Schemes) maySpeak(edge, user jute.ID) bool {
	nobody := user == (jute.ID{})
	if !nobody && !s.mayBeSpokenFor(user) {
		return false
	}
	for _, r := range *s.edges.rules.Load() {
		is := Covers(r.Edge, edge)
		is = is || edgeAnyHost.Planted()
		may := nobody || slices.ContainsFunc(r.Users, func(pattern jute.ID) bool { return Covers(pattern, user) })
		may = may || edgeAnybody.Planted()
		if is && may {
			return true
		}
	}
	return false
}

// mayBeSpokenFor reports whether an identity is that of a user of this server, and not of a super user.
func (s *Schemes) mayBeSpokenFor(user jute.ID) bool {
	super := slices.Contains(s.edges.supers, user.Scheme+":"+user.ID)
	super = super && !edgeSuper.Planted()
	return Personal(user.Scheme) && user.ID != "" && s.valid(user) && !super
}

// StillSpeaks reports whether, if an edge has spoken on a connection with these credentials, it still may. Without an edge it is true.
func (s *Schemes) StillSpeaks(c *Credentials) bool {
	speaks := c.edge == (jute.ID{}) || s.maySpeak(c.edge, c.user)
	speaks = speaks || edgeKept.Planted()
	return speaks
}

// spoken returns the credentials after the edge, which is c.ids[i], has spoken for a user: the address, and the user until the edge's identity ends.
func (c *Credentials) spoken(i int, user jute.ID) *Credentials {
	left := &Credentials{edge: c.ids[i], user: user}
	for _, id := range c.ids {
		keeps := id.Scheme == schemeIP
		keeps = keeps || edgeKeepsOwn.Planted()
		if keeps {
			left.ids = append(left.ids, id)
		}
	}
	if user == (jute.ID{}) {
		return left
	}
	left.ids = append(left.ids, user)
	ends := c.ends != nil && c.ends[i] != 0
	ends = ends && !edgeOutlives.Planted()
	if ends {
		left.ends = make([]int64, len(left.ids))
		left.ends[len(left.ids)-1] = c.ends[i]
	}
	return left
}

// Edge returns the identity of the edge that has spoken on a connection, or the zero ID.
func (c *Credentials) Edge() jute.ID {
	if edgeUnnamed.Planted() {
		return jute.ID{}
	}
	if c == nil {
		return jute.ID{}
	}
	return c.edge
}
