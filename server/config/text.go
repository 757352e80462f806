package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Text renders m as shown by znode /zookeeper/config and the four-letter word conf,
// without the version: the server lines in the order of their ids, then, for hierarchical
// quorums, the group and weight lines. Every line ends with "\n".
func (m *Members) Text() string {
	var b strings.Builder
	for _, s := range m.Servers {
		fmt.Fprintf(&b, "server.%d=%s\n", s.ID, s)
	}
	if !m.Hierarchical {
		return b.String()
	}
	for _, g := range m.Groups {
		fmt.Fprintf(&b, "group.%d=%s\n", g.ID, joinIDs(g.Members))
	}
	for _, s := range m.Servers {
		if !s.Observer {
			fmt.Fprintf(&b, "weight.%d=%d\n", s.ID, s.Weight)
		}
	}
	return b.String()
}

// ParseMembers parses the output of Text, with or without a version line. The error is an
// Errors. It does not check that the members can work together.
func ParseMembers(text string) (Members, error) {
	l := newLoader(nil)
	l.c.raw.multiAddress = true
	l.memberText(text, "members")
	if len(l.errs) > 0 {
		return Members{}, l.errs
	}
	return l.c.Members, nil
}

// memberText reads the lines of members, and a version line, which are all that text has.
func (l *loader) memberText(text, name string) {
	var props []property
	for _, p := range l.properties([]byte(text), name) {
		if p.key == "version" {
			v, err := strconv.ParseUint(p.value, 16, 64)
			if err != nil {
				l.fail(p, "must be a hexadecimal number")
			}
			l.c.Members.Version = v
			continue
		}
		if _, _, ok := memberKey(p.key); !ok {
			l.fail(p, "is not a server, group or weight line")
			continue
		}
		props = append(props, p)
	}
	l.members(props)
}

func joinIDs(ids []int64) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(words, ":")
}

// Group returns the group of a server in a hierarchical configuration. ok is false if it
// is in none.
func (m *Members) Group(server int64) (group int64, ok bool) {
	for _, g := range m.Groups {
		if slices.Contains(g.Members, server) {
			return g.ID, true
		}
	}
	return 0, false
}
