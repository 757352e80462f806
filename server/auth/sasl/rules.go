package sasl

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Rules map principals to short names; the first that applies counts.
type Rules []rule

// rule is DEFAULT, which maps principals of the default realm to their first part, or
// RULE:[components:format](match)s/from/to/g.
type rule struct {
	isDefault  bool
	components int
	format     string // $0 is the realm, $1 and $2 are the name and the host
	match      *regexp.Regexp
	from       *regexp.Regexp // nil if there is no substitution
	to         string
	global     bool
}

var (
	ruleForm  = regexp.MustCompile(`^\s*(?:(DEFAULT)|RULE:\[(\d*):([^\]]*)\](\(([^)]*)\))?(s/([^/]*)/([^/]*)/(g)?)?)`)
	parameter = regexp.MustCompile(`\$(\d*)`)
)

// ParseRules reads the rules of Kerberos' auth_to_local, in the form of
// zookeeper.security.auth_to_local. Patterns are those of Go, which has no lookaround and no
// back references.
func ParseRules(text string) (Rules, error) {
	var rules Rules
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		m := ruleForm.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("no rule begins at %.60q: want DEFAULT or RULE:[n:format](pattern)s/from/to/g", rest)
		}
		rest = rest[len(m[0]):]
		r, err := newRule(m)
		if err != nil {
			return nil, fmt.Errorf("rule %.60q: %w", strings.TrimSpace(m[0]), err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func newRule(m []string) (r rule, err error) {
	if m[1] != "" {
		return rule{isDefault: true}, nil
	}
	if r.components, err = strconv.Atoi(m[2]); err != nil {
		return r, fmt.Errorf("the number of parts: %w", err)
	}
	r.format = m[3]
	for _, p := range parameter.FindAllStringSubmatch(r.format, -1) {
		if n, err := strconv.Atoi(p[1]); err != nil || n > r.components {
			return r, fmt.Errorf("%s is not $0 to $%d", p[0], r.components)
		}
	}
	if m[4] != "" {
		if r.match, err = regexp.Compile(`^(?:` + m[5] + `)$`); err != nil {
			return r, err
		}
	}
	if m[6] != "" {
		if r.from, err = regexp.Compile(m[7]); err != nil {
			return r, err
		}
		r.to, r.global = replacement(m[8]), m[9] == "g"
	}
	return r, nil
}

// replacement converts what replaces a match from Java's notation to that of Go: $1 ends after
// the digit, and a backslash takes the next letter as it is.
func replacement(java string) string {
	var b strings.Builder
	for i := 0; i < len(java); i++ {
		c := java[i]
		switch {
		case c == '\\' && i+1 < len(java):
			i++
			c = java[i]
		case c == '$' && i+1 < len(java) && java[i+1] >= '0' && java[i+1] <= '9':
			i++
			b.WriteString("${" + java[i:i+1] + "}")
			continue
		}
		if c == '$' {
			b.WriteByte('$')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// shortName returns the name that the first rule for the principal gives it. There is none
// if no rule applies, or if the name has a slash or an at sign.
func (rules Rules) shortName(p principal, defaultRealm string) (string, bool) {
	if rules == nil {
		rules = Rules{{isDefault: true}}
	}
	parts := []string{p.realm, p.name}
	if p.hasHost {
		parts = append(parts, p.host)
	}
	for _, r := range rules {
		if name, ok := r.apply(parts, defaultRealm); ok {
			return name, !strings.ContainsAny(name, "/@")
		}
	}
	return "", false
}

func (r rule) apply(parts []string, defaultRealm string) (string, bool) {
	switch {
	case r.isDefault:
		return parts[1], parts[0] == defaultRealm
	case len(parts)-1 != r.components:
		return "", false
	}
	name := parameter.ReplaceAllStringFunc(r.format, func(p string) string {
		n, _ := strconv.Atoi(p[1:]) // newRule has checked it
		return parts[n]
	})
	switch {
	case r.match != nil && !r.match.MatchString(name):
		return "", false
	case r.from == nil:
		return name, true
	case r.global:
		return r.from.ReplaceAllString(name, r.to), true
	}
	if at := r.from.FindStringSubmatchIndex(name); at != nil {
		return name[:at[0]] + string(r.from.ExpandString(nil, r.to, name, at)) + name[at[1]:], true
	}
	return name, true
}
