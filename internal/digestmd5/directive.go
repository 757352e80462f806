package digestmd5

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Directive is one name=value of a message. Names are in lower case.
type Directive struct{ Name, Value string }

// ParseDirectives reads a list of directives with commas between them, white space around
// them, and values that are tokens or quoted strings. Empty ones count for nothing. A name
// of single may be there at most once.
func ParseDirectives(s string, single ...string) ([]Directive, error) {
	const space = " \t\r\n"
	var list []Directive
	for {
		s = strings.TrimLeft(s, space+",")
		if s == "" {
			return list, nil
		}
		name, rest, ok := strings.Cut(s, "=")
		name = strings.ToLower(strings.TrimRight(name, space))
		if !ok || name == "" || strings.ContainsAny(name, space+`",`) {
			return nil, fmt.Errorf("%.40q has no name=value", s)
		}
		value, rest, err := parseValue(strings.TrimLeft(rest, space))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		d := Directive{name, value}
		if slices.Contains(single, name) && slices.ContainsFunc(list, func(o Directive) bool { return o.Name == name }) {
			return nil, fmt.Errorf("%s twice", name)
		}
		list = append(list, d)
		if s = strings.TrimLeft(rest, space); s != "" && s[0] != ',' {
			return nil, fmt.Errorf("%s: %.40q follows its value", name, s)
		}
	}
}

// parseValue reads a token or a quoted string, and returns what follows.
func parseValue(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, ", \t\r\n\"")
		if end < 0 {
			end = len(s)
		}
		if end == 0 {
			return "", "", errors.New("no value")
		}
		return s[:end], s[end:], nil
	}
	var b []byte
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return string(b), s[i+1:], nil
		case '\\':
			if i++; i == len(s) {
				return "", "", errors.New("no closing quote")
			}
		}
		b = append(b, s[i])
	}
	return "", "", errors.New("no closing quote")
}

// Quote returns s as a quoted-string.
func Quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
