package config

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Members are the servers of an ensemble, as defined by the server, group and weight
// lines.
type Members struct {
	// Servers are in the order of their ids.
	Servers []Server
	// Groups are the groups of a hierarchical quorum, in the order of their ids; empty
	// for majority quorums.
	Groups []Group
	// Hierarchical means that there were group or weight lines.
	Hierarchical bool
	// Version is the version of the configuration: the hexadecimal suffix of
	// the name of the dynamicConfigFile, or 0.
	Version uint64
}

// Server is one member.
type Server struct {
	ID       int64
	Observer bool
	// Addrs are its addresses for other servers: one, unless multiAddress.enabled.
	Addrs []PeerAddr
	// Client and SecureClient are its endpoints for clients; the zero Endpoint if the
	// line has none.
	Client, SecureClient Endpoint
	// Weight is its number of votes in its group; 1 unless a weight line sets another. A
	// server with 0 is never elected and not counted.
	Weight int64

	origin Origin
}

// PeerAddr is an address of a server for other servers.
type PeerAddr struct {
	Host                     string // a name or an address, without brackets
	QuorumPort, ElectionPort int
}

// String returns the address that other servers dial: host:port, with the quorum port.
// zkd does not use the election port.
func (a PeerAddr) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.QuorumPort)) }

// Endpoint is a host and a TCP port.
type Endpoint struct {
	Host string // a name or an address, without brackets
	Port int
}

// String renders e as host:port.
func (e Endpoint) String() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// Group is a group of a hierarchical quorum.
type Group struct {
	ID      int64
	Members []int64 // ids of servers, ascending

	origin Origin
}

// String renders the value of the server line in its canonical form, which always has the
// role and the host of the client part.
func (s Server) String() string {
	var b strings.Builder
	for i, a := range s.Addrs {
		if i > 0 {
			b.WriteByte('|')
		}
		fmt.Fprintf(&b, "%s:%d", a, a.ElectionPort)
	}
	if s.Observer {
		b.WriteString(":observer")
	} else {
		b.WriteString(":participant")
	}
	if s.Client.Port != 0 || s.SecureClient.Port != 0 {
		b.WriteByte(';')
	}
	if s.Client.Port != 0 {
		b.WriteString(s.Client.String())
	}
	if s.SecureClient.Port != 0 {
		b.WriteString(";" + s.SecureClient.String())
	}
	return b.String()
}

// Server returns the member with the given id.
func (m *Members) Server(id int64) (Server, bool) {
	i, found := slices.BinarySearchFunc(m.Servers, id, func(s Server, id int64) int { return cmp.Compare(s.ID, id) })
	if !found {
		return Server{}, false
	}
	return m.Servers[i], true
}

// Voters returns the number of members that are not observers.
func (m *Members) Voters() (n int) {
	for _, s := range m.Servers {
		if !s.Observer {
			n++
		}
	}
	return n
}

// memberKey splits a key such as server.3 into its kind and id. ok is false for keys of
// other kinds.
func memberKey(key string) (kind, id string, ok bool) {
	kind, id, ok = strings.Cut(key, ".")
	return kind, id, ok && (kind == "server" || kind == "group" || kind == "weight")
}

func (m *Members) keyDocs() []Key {
	return []Key{
		{Name: "server.*", Doc: "`server.<id>=" + serverForm + "`: a member of the ensemble. IPv6 addresses are in brackets."},
		{Name: "group.*", Doc: "`group.<g>=<id>[:<id>...]`: a group of a hierarchical quorum."},
		{Name: "weight.*", Doc: "`weight.<id>=<n>`: votes of a server in its group. Default 1."},
	}
}

const (
	serverForm   = "<host>:<quorumPort>:<electionPort>[:participant|:observer][;[<clientHost>:]<clientPort>][;[<secureHost>:]<securePort>]"
	serverSyntax = "write " + serverForm + ", IPv6 addresses in brackets"
)

// parseServer reads the value of a server line.
func parseServer(text string) (s Server, problem string) {
	parts := strings.Split(text, ";")
	if len(parts) > 3 {
		return s, serverSyntax
	}
	for i, alternative := range strings.Split(parts[0], "|") {
		fields, ok := splitHostPorts(alternative)
		if !ok || len(fields) < 3 || len(fields) > 4 || len(fields) == 4 && i > 0 && !isRole(fields[3]) {
			return s, serverSyntax
		}
		if len(fields) == 4 {
			if !isRole(fields[3]) {
				return s, fmt.Sprintf("role %q is neither participant nor observer", fields[3])
			}
			s.Observer = strings.EqualFold(fields[3], "observer")
		}
		var a PeerAddr
		a.Host = fields[0]
		var okQuorum, okElection bool
		a.QuorumPort, okQuorum = port(fields[1], 1)
		a.ElectionPort, okElection = port(fields[2], 1)
		switch {
		case !validHost(a.Host):
			return s, fmt.Sprintf("%q is neither a host name nor an IP address", a.Host)
		case !okQuorum || !okElection:
			return s, "a port is a number from 1 to 65535; " + serverSyntax
		case a.QuorumPort == a.ElectionPort:
			return s, "the quorum port and the election port must differ"
		}
		s.Addrs = append(s.Addrs, a)
	}
	for i, field := range []*Endpoint{&s.Client, &s.SecureClient} {
		if len(parts) <= i+1 || parts[i+1] == "" {
			continue
		}
		var ok bool
		if *field, ok = parseEndpoint(parts[i+1]); !ok {
			return s, fmt.Sprintf("client part %q is neither <port> nor <host>:<port>", parts[i+1])
		}
	}
	return s, ""
}

func isRole(s string) bool {
	return strings.EqualFold(s, "participant") || strings.EqualFold(s, "observer")
}

// parseEndpoint parses <port> or <host>:<port>. Without a host it means all IPv4
// addresses, as in Apache's server.
func parseEndpoint(text string) (e Endpoint, ok bool) {
	fields, ok := splitHostPorts(text)
	if ok && len(fields) == 1 {
		fields = []string{"0.0.0.0", fields[0]}
	}
	if !ok || len(fields) != 2 || !validHost(fields[0]) {
		return Endpoint{}, false
	}
	e.Host = fields[0]
	e.Port, ok = port(fields[1], 1)
	return e, ok
}

// splitHostPorts cuts text at its colons, except for those of a bracketed IPv6 address at
// its beginning.
func splitHostPorts(text string) (fields []string, ok bool) {
	text = strings.TrimSpace(text)
	if rest, bracket := strings.CutPrefix(text, "["); bracket {
		address, tail, closed := strings.Cut(rest, "]")
		if !closed || tail != "" && tail[0] != ':' {
			return nil, false
		}
		fields = append(fields, address)
		if tail == "" {
			return fields, true
		}
		text = tail[1:]
	}
	for f := range strings.SplitSeq(text, ":") {
		fields = append(fields, strings.TrimSpace(f))
	}
	return fields, true
}

// parseIDs parses the value of a group line: ids separated by colons.
func parseIDs(text string) (ids []int64, ok bool) {
	for f := range strings.SplitSeq(text, ":") {
		id, ok := parseNumber(strings.TrimSpace(f))
		if !ok || id < 0 {
			return nil, false
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids), true
}
