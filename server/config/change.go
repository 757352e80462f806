package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Change is a change of the members as a reconfig request asks for it.
type Change struct {
	// Joining are server lines with commas between them. A server whose id is in use
	// replaces the member with that id.
	Joining string
	// Leaving are ids with commas between them. They are removed before the joining
	// servers are added; an id that no member has is ignored.
	Leaving string
	// Whole is the list of all members, with their groups and weights: lines with commas
	// or line ends between them. If it is not empty, Joining and Leaving are ignored.
	Whole string
}

// ChangeOptions are the settings that decide which members a change may have.
type ChangeOptions struct {
	StandaloneEnabled bool // at least two participants, not one
	ExtendedTypes     bool // ids up to 254, not 255
	MultiAddress      bool // a server may have several addresses
}

// ChangeOptions returns the settings of c for [Change.Apply].
func (c *Config) ChangeOptions() ChangeOptions {
	return ChangeOptions{c.StandaloneEnabled, c.ExtendedTypes, c.raw.multiAddress}
}

var (
	// ErrNoNumber means that the id of a leaving or a joining server is no number. ZooKeeper
	// answers this one with MarshallingError, and every other error with BadArguments.
	ErrNoNumber = errors.New("is no id of a server: write a number, such as 3")
	// ErrIDRange means that nothing is wrong with the change but the id of a server, which
	// ZooKeeper would take.
	ErrIDRange = errors.New("no id of a server here")
	// ErrHierarchical means that the members have groups, which an incremental change
	// does not say how to change.
	ErrHierarchical = errors.New("the ensemble has groups and weights: write the whole list of members, with its group and weight lines, in place of joining and leaving servers")
)

// Apply returns the members after the change, with remarks on them. They have version 0, since
// the version is the zxid of the change, which the caller knows. [ParseMembers] makes equal
// members of their text. The error is an Errors, ErrHierarchical, or wraps ErrNoNumber
// or ErrIDRange.
//
// Apply refuses texts of more than maxChange bytes, and takes time in proportion to theirs: the leader
// applies what any client sends.
//
// Apply checks the result by itself. Whether its servers are up is for the caller to check.
func (c Change) Apply(now Members, o ChangeOptions) (Members, []Warning, error) {
	if n := len(c.Whole) + len(c.Joining) + len(c.Leaving); n > maxChange {
		return Members{}, nil, Errors{{Text: fmt.Sprintf("the change has %d bytes, and at most %d are taken", n, maxChange)}}
	}
	l := newLoader(nil)
	l.c.StandaloneEnabled, l.c.ExtendedTypes, l.c.raw.multiAddress = o.StandaloneEnabled, o.ExtendedTypes, o.MultiAddress
	l.set["extendedTypesEnabled"] = property{} // servers that run have it, given or not
	if c.Whole != "" {
		l.memberText(strings.ReplaceAll(c.Whole, ",", "\n"), "members")
		l.keepClientPorts(now)
	} else if err := l.incremental(c, now); err != nil {
		return Members{}, nil, err
	}
	if len(l.errs) == 0 {
		l.validateChange(now)
	}
	if len(l.errs) > 0 {
		return Members{}, nil, l.errs
	}
	if l.validateIDs(); len(l.errs) > 0 {
		return Members{}, nil, fmt.Errorf("%w: %w", ErrIDRange, l.errs)
	}
	m, err := ParseMembers(l.c.Members.Text())
	return m, l.warnings, err
}

// maxChange is the length of a change, in bytes. It has room for 255 servers with lines of 256 bytes.
const maxChange = 64 << 10

// Names reports whether the change says what the member with an id is to be.
func (c Change) Names(id int64) bool {
	if c.Whole != "" {
		return true
	}
	return slices.ContainsFunc(strings.Split(c.Joining, ","), func(line string) bool {
		key, _, _ := strings.Cut(line, "=")
		_, text, _ := memberKey(trimJava(key))
		n, err := strconv.ParseInt(text, 10, 64)
		return err == nil && n == id
	})
}

// keepClientPorts gives the members that a whole list has without a port for clients the ports
// that they have now: their zoo.cfg may name none (see SaveMembers), and without one they
// would not start again.
func (l *loader) keepClientPorts(now Members) {
	servers := l.c.Members.Servers
	for i := range servers {
		if s := &servers[i]; s.Client.Port == 0 && s.SecureClient.Port == 0 {
			old, _ := now.Server(s.ID)
			s.Client, s.SecureClient = old.Client, old.SecureClient
		}
	}
}

// incremental makes the members of the loader those of now without the leaving and with
// the joining servers.
func (l *loader) incremental(c Change, now Members) error {
	if now.Hierarchical {
		return ErrHierarchical
	}
	gone := make(map[int64]bool)
	for text := range strings.SplitSeq(c.Leaving, ",") {
		if text = trimJava(text); text == "" {
			continue
		}
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("leaving: %q %w", text, ErrNoNumber)
		}
		gone[id] = true
	}
	if err := l.joining(c.Joining); err != nil {
		return err
	}
	m := &l.c.Members
	for _, s := range m.Servers {
		gone[s.ID] = true
	}
	for _, s := range now.Servers {
		if !gone[s.ID] {
			m.Servers = append(m.Servers, s)
		}
	}
	slices.SortFunc(m.Servers, func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
	return nil
}

// joining makes the joining servers the members of the loader.
func (l *loader) joining(text string) error {
	var props []property
	for line := range strings.SplitSeq(text, ",") {
		if line = trimJava(line); line == "" {
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		p := property{key: trimJava(key), value: trimJava(value), origin: Origin{File: "joining"}}
		kind, id, _ := memberKey(p.key)
		if kind != "server" {
			l.fail(p, "is not a server line: write server.<id>=%s", serverForm)
			continue
		}
		if _, err := strconv.ParseInt(id, 10, 64); err != nil && p.value != "" && len(l.errs) == 0 {
			return fmt.Errorf("joining: %q %w", id, ErrNoNumber)
		}
		props = append(props, p)
	}
	l.members(props)
	for _, s := range l.c.Members.Servers {
		if s.Client.Port == 0 {
			l.fail(s.line(), "a joining server needs a port for clients: write it after a semicolon, as in ;2181 or ;zk%d:2181", s.ID)
		}
	}
	return nil
}

// validateChange checks the members of the loader, which are to come after now.
func (l *loader) validateChange(now Members) {
	m := &l.c.Members
	switch voters := m.Voters(); {
	case voters < 2 && l.c.StandaloneEnabled:
		l.fail(property{}, "the change would leave %s, and standaloneEnabled=true needs 2: keep another one, or set standaloneEnabled=false on every server",
			plural(voters, "participant"))
	case voters < 1:
		l.fail(property{}, "the change would leave no participant: keep at least one server that is not an observer")
	}
	l.validateGroups()
	if !m.quorumPossible() {
		l.fail(property{}, "no group has a participant with a weight above 0, so there could be no quorum: give at least one a weight line above 0")
	}
	l.validateEndpoints(now)
}

// quorumPossible reports whether all voters together are a quorum. They are if there is a
// vote: the servers without weight, and the groups without votes, are not counted.
func (m *Members) quorumPossible() bool {
	return !m.Hierarchical || slices.ContainsFunc(m.Servers, func(s Server) bool {
		_, grouped := m.Group(s.ID)
		return grouped && !s.Observer && s.Weight > 0
	})
}

// validateEndpoints checks the ports of the servers that are new or changed. A quorum port must
// be the only use of that port on its host, and a server can't have one port for two things.
// Two servers that share another port get a warning: one of them can't serve clients there.
// Conflicts among the other servers are older than this change.
func (l *loader) validateEndpoints(now Members) {
	var kept, changed []Server
	for _, s := range l.c.Members.Servers {
		if before, ok := now.Server(s.ID); ok && before.String() == s.String() {
			kept = append(kept, s)
		} else {
			changed = append(changed, s)
		}
	}
	// One other use of each is enough to know: a quorum port or else the last one, which is the server's
	// own if that has it twice.
	quorum, last := make(map[Endpoint]listener), make(map[Endpoint]listener)
	for i, s := range append(kept, changed...) {
		for _, e := range s.listeners() {
			other, taken := quorum[e.Endpoint]
			if !taken {
				other, taken = last[e.Endpoint]
			}
			if taken && i >= len(kept) {
				l.sharedPort(s, e, other)
			}
			if e.port == quorumPort {
				quorum[e.Endpoint] = e
			}
			last[e.Endpoint] = e
		}
	}
}

const quorumPort = "quorum port"

// sharedPort fails or warns because a port of s is in use already, by s itself or another server.
func (l *loader) sharedPort(s Server, e, other listener) {
	if e.server == other.server || e.port == quorumPort || other.port == quorumPort {
		l.fail(s.line(), "its %s, %s, is the %s of server.%d: every server needs its own ports on a host", e.port, e, other.port, other.server)
		return
	}
	l.warn(s.line(), "its %s, %s, is the %s of server.%d: if both run on one host, only one of them can listen there", e.port, e, other.port, other.server)
}

// listener is an address on which a server listens.
type listener struct {
	Endpoint
	server int64
	port   string // what it is for
}

// listeners returns the addresses on which s listens, each once, in a form that can be
// compared; nothing listens on election ports. A wildcard address for clients means the
// hosts of s. So does a loopback address if the ensemble is on several machines, since each
// machine has its own.
func (s Server) listeners() (all []listener) {
	seen := make(map[listener]bool)
	add := func(host string, port int, name string) {
		if one := (listener{Endpoint{comparableHost(host), port}, s.ID, name}); !seen[one] {
			seen[one] = true
			all = append(all, one)
		}
	}
	for _, a := range s.Addrs {
		add(a.Host, a.QuorumPort, quorumPort)
	}
	for _, client := range []struct {
		Endpoint
		port string
	}{{s.Client, "client port"}, {s.SecureClient, "secure client port"}} {
		switch {
		case client.Port == 0:
		case isWildcard(client.Host) || isLoopback(client.Host) && !isLoopback(s.Addrs[0].Host):
			for _, a := range s.Addrs {
				add(a.Host, client.Port, client.port)
			}
		default:
			add(client.Host, client.Port, client.port)
		}
	}
	return all
}

// comparableHost returns the one form of the names that differ in case, and of the ways to
// write an IP address.
func comparableHost(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return strings.ToLower(host)
}

func isWildcard(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsUnspecified()
}
