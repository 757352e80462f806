package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxServerID is the largest id of a server in an ensemble: the id is the top byte of
	// the ids of the sessions created there, so it must fit into one byte.
	maxServerID = 255
	// maxTTLServerID is the largest id where TTL nodes are allowed: 255 as the top byte
	// of an ephemeral's owner marks a TTL node.
	maxTTLServerID = 254
)

// memberID identifies a line that may occur only once: server.1 and server.01 are the
// same.
type memberID struct {
	kind string
	id   int64
}

// members reads the server, group and weight lines.
func (l *loader) members(props []property) {
	m := &l.c.Members
	weights := make(map[int64]property)
	seen := make(map[memberID]property)
	for _, p := range props {
		kind, number, _ := memberKey(strings.TrimPrefix(p.key, "zookeeper."))
		id, ok := parseNumber(number)
		if !ok || id < 0 {
			l.fail(p, "what follows %q in the key must be a number from 0", kind+".")
			continue
		}
		if first, again := seen[memberID{kind, id}]; again {
			l.fail(p, "is the same as %s (%s)", first.key, first.origin)
			continue
		}
		seen[memberID{kind, id}] = p
		switch kind {
		case "server":
			l.member(id, p)
		case "group":
			m.Hierarchical = true
			ids, ok := parseIDs(p.value)
			if !ok {
				l.fail(p, "must be ids of servers with colons between them")
			}
			m.Groups = append(m.Groups, Group{ID: id, Members: ids, origin: p.origin})
		case "weight":
			m.Hierarchical = true
			weights[id] = p
		}
	}
	slices.SortFunc(m.Servers, func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(m.Groups, func(a, b Group) int { return cmp.Compare(a.ID, b.ID) })
	l.setWeights(weights)
}

func (l *loader) member(id int64, p property) {
	s, problem := parseServer(p.value)
	if problem != "" {
		l.badMember = true
		l.fail(p, "%s", problem)
		return
	}
	if len(s.Addrs) > 1 && !l.c.raw.multiAddress {
		l.fail(p, "several addresses need multiAddress.enabled=true")
		return
	}
	s.ID, s.Weight, s.origin = id, 1, p.origin
	l.c.Members.Servers = append(l.c.Members.Servers, s)
}

func (l *loader) setWeights(weights map[int64]property) {
	servers := l.c.Members.Servers
	for i := range servers {
		p, given := weights[servers[i].ID]
		if !given {
			continue
		}
		delete(weights, servers[i].ID)
		n, ok := parseNumber(p.value)
		if !ok || n < 0 || n > maxInt {
			l.fail(p, "must be a number from 0 to %d", maxInt)
		}
		servers[i].Weight = n
	}
	for id, p := range weights {
		l.warn(p, "there is no server.%d", id)
	}
}

func (l *loader) validateMembers() {
	l.validateIDs()
	l.validateGroups()
	if l.badMember {
		return // the checks below count servers
	}
	c := l.c
	participants := c.Members.Voters()
	observers := len(c.Members.Servers) - participants
	switch {
	case participants == 0 && !c.StandaloneEnabled:
		l.fail(l.set["standaloneEnabled"], "an ensemble needs at least one server.N line of a participant")
	case observers > 0 && (participants == 0 || !c.Replicated()):
		l.fail(memberLine(c.Members.Servers), "observers without at least two participants can't work")
	case participants == 1 && c.StandaloneEnabled:
		l.warn(memberLine(c.Members.Servers),
			"a single server.N line is ignored: the server runs standalone (standaloneEnabled=false makes it an ensemble of one)")
	}
	l.validateAutopilot()
	if !c.Replicated() {
		return
	}
	l.validateLimits()
	l.validateSelf()
	l.validateAddresses()
	if n := participants; n%2 == 0 && !c.Members.Hierarchical && !c.ReconfigEnabled {
		l.warn(memberLine(c.Members.Servers), "%d participants can spare %s, no more than %d can: an odd number is better",
			n, numberOrNone((n-1)/2), n-1)
	}
}

func numberOrNone(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}

func (l *loader) validateLimits() {
	for _, limit := range []struct {
		key string
		n   int
	}{{"initLimit", l.c.raw.initLimit}, {"syncLimit", l.c.raw.syncLimit}} {
		if limit.n == 0 && !l.failed(limit.key) {
			p, given := l.set[limit.key]
			if !given {
				p = l.missing(limit.key)
			}
			l.fail(p, "an ensemble needs a number of ticks above 0")
		}
	}
	if p, given := l.set["localSessionsUpgradingEnabled"]; given && l.c.LocalSessionsUpgrading && !l.c.LocalSessions {
		l.warn(p, "has no effect without localSessionsEnabled=true")
	}
}

// validateSelf checks that this server's id is known and that it is a member.
func (l *loader) validateSelf() {
	c := l.c
	if c.DataDir == "" || l.badID {
		return
	}
	if c.MyID < 0 {
		l.fail(l.missing("dataDir"), "an ensemble needs the file myid in %s, with the id of this server (or --myid, or zkd.myid): one of %s",
			c.DataDir, c.Members.list())
		return
	}
	if _, listed := c.Members.Server(c.MyID); !listed {
		p := l.idFrom
		p.value = strconv.FormatInt(c.MyID, 10)
		removed := ""
		if c.ReconfigEnabled {
			removed = "; a server that a reconfig has removed starts only with a line of its own: it then learns without a vote, until reconfig adds it again"
		}
		l.fail(p, "there is no server.%d: this server must be one of %s%s", c.MyID, c.Members.list(), removed)
	}
}

// list returns the servers for messages: "1 (zk1:2888), 2 (zk2:2888)".
func (m *Members) list() string {
	words := make([]string, len(m.Servers))
	for i, s := range m.Servers {
		words[i] = fmt.Sprintf("%d (%s)", s.ID, s.Addrs[0])
	}
	return strings.Join(words, ", ")
}

// validateAddresses checks that no two servers share an address, and warns where two
// servers would fail together.
func (l *loader) validateAddresses() {
	byAddr := make(map[string]Server)
	byHost := make(map[string]Server)
	warned := false
	for _, s := range l.c.Members.Servers {
		for _, a := range s.Addrs {
			addr, host := strings.ToLower(a.String()), strings.ToLower(a.Host)
			if other, twice := byAddr[addr]; twice && other.ID != s.ID {
				l.fail(s.line(), "has the address of server.%d, %s: every server needs its own", other.ID, a)
				continue
			}
			byAddr[addr] = s
			other, shared := byHost[host]
			if shared && other.ID != s.ID && !s.Observer && !other.Observer && !isLoopback(host) && !warned {
				l.warn(s.line(), "is on the host of server.%d, %s: what takes down the one takes down the other", other.ID, a.Host)
				warned = true
			}
			byHost[host] = s
		}
	}
}

// isLoopback reports whether a host is an address for tests on one machine.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// line returns the line of the file that s came from.
func (s Server) line() property {
	return property{key: fmt.Sprintf("server.%d", s.ID), origin: s.origin}
}

// memberLine returns the first line that defines one of servers, of which there is at
// least one.
func memberLine(servers []Server) property {
	first := slices.MinFunc(servers, func(a, b Server) int { return cmp.Compare(a.origin.Line, b.origin.Line) })
	return first.line()
}

func (l *loader) validateIDs() {
	for _, s := range l.c.Members.Servers {
		p := s.line()
		switch {
		case s.ID > maxServerID:
			l.fail(p, "an id is a number from 0 to %d: it is the top byte of the ids of the server's sessions", maxServerID)
		case s.ID > maxTTLServerID && l.c.ExtendedTypes:
			l.fail(p, "TTL nodes do not allow an id above %d: set extendedTypesEnabled=false or take another id", maxTTLServerID)
		}
	}
}

func (l *loader) validateGroups() {
	m := &l.c.Members
	if !m.Hierarchical {
		return
	}
	groupOf := make(map[int64]int64)
	for _, g := range m.Groups {
		p := property{key: fmt.Sprintf("group.%d", g.ID), origin: g.origin}
		for _, id := range g.Members {
			if other, twice := groupOf[id]; twice {
				l.fail(p, "server %d is in group.%d and in group.%d", id, other, g.ID)
			}
			groupOf[id] = g.ID
			if _, listed := m.Server(id); !listed {
				l.warn(p, "there is no server.%d", id)
			}
		}
	}
	for _, s := range m.Servers {
		if _, grouped := groupOf[s.ID]; !grouped && !s.Observer {
			l.fail(s.line(), "is in no group: with group or weight lines, every participant must be in one")
		}
	}
}
