package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/limits"
)

// edgesPrefix begins the keys that say for whom edges may speak; the name of the rule follows.
const edgesPrefix = "zkd.edge."

func edgesKeys(*Config) []Key {
	return []Key{
		{Name: edgesPrefix + "*", Protects: true, Live: true,
			Doc: "`zkd.edge.<name>=<edge> <users>`: the [edges](edge.md#users-of-a-host) with that identity may speak for these users, as in `x509:CN=web-*,O=Acme sasl:web-* sasl:ann`, but for no super user. The identities are those that whoAmI shows; `*` stands for any text within a part of a name. Give all servers the same."},
		{Name: strings.TrimSuffix(edgesPrefix, ".") + "*", Status: Later, Protects: true,
			Doc: "there is no such key; a rule is zkd.edge.<name>"},
	}
}

// resolveEdges reads the rules.
func (l *loader) resolveEdges() {
	for _, key := range slices.Sorted(maps.Keys(l.set)) {
		name, ok := strings.CutPrefix(key, edgesPrefix)
		if !ok {
			continue
		}
		rule, err := parseEdge(name, l.set[key].value)
		if err == nil {
			err = l.c.checkEdge(&rule)
		}
		if err != nil {
			l.fail(l.set[key], "%v", err)
			continue
		}
		l.c.Edges = append(l.c.Edges, rule)
	}
}

func parseEdge(name, text string) (auth.EdgeRule, error) {
	words, ok := limits.Words(text)
	if name == "" || !ok || len(words) == 0 {
		return auth.EdgeRule{}, errors.New(`want zkd.edge.<name>=<edge> <users>, as in zkd.edge.web=x509:CN=web-7,O=Acme sasl:web-* sasl:ann; an identity with spaces is in quotes`)
	}
	rule, err := auth.NewEdgeRule(words[0], words[1:]...)
	rule.Name = name
	return rule, err
}

// checkEdge checks a rule against the schemes and the super users of this server.
func (c *Config) checkEdge(r *auth.EdgeRule) error {
	supers := c.Supers()
	for _, id := range r.IDs() {
		switch {
		case !c.HasScheme(id.Scheme):
			return fmt.Errorf("%s: this server has no scheme %s", auth.Name(id), id.Scheme)
		case slices.Contains(r.Users, id) && slices.Contains(supers, id.Scheme+":"+id.ID):
			return fmt.Errorf("%s is a super user, for whom no edge may speak", auth.Name(id))
		}
	}
	return nil
}

// Supers returns the identities of super users, as scheme:name.
func (c *Config) Supers() (supers []string) {
	add := func(scheme, name string) {
		if name != "" {
			supers = append(supers, scheme+":"+name)
		}
	}
	add("sasl", "super") // whom every entry of an ACL covers
	add("digest", c.SuperDigest.Reveal())
	add("x509", c.Identities.X509.SuperUser)
	add("jwt", c.Identities.JWT.SuperUser)
	for _, id := range c.SASL.SuperUsers {
		add("sasl", id)
	}
	return supers
}
