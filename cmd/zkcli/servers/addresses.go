package servers

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"
)

// mostMembers bounds how many servers are asked of which others told. The ids of members are at most as large.
const mostMembers = 255

// Members returns where the Asker reaches the members of which the first server tells that does, or
// nothing. Servers without a quorum tell, too.
func (a Asker) Members(ctx context.Context, servers []string, limit time.Duration) []string {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, server := range servers {
		if text, err := a.word(ctx, server, "conf"); err == nil {
			if list := a.Addresses(text); len(list) > 0 {
				return list
			}
		}
	}
	return nil
}

// Addresses returns where the Asker reaches the servers of an ensemble's configuration. A
// line is server.1=host:2888:3888[|…]:participant;[address:]port[;[address:]port for TLS].
func (a Asker) Addresses(config string) []string {
	var list []string
	for value := range maps.Values(serverLines(config)) {
		if at := a.Address(value); at != "" {
			list = append(list, at)
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return list[:min(len(list), mostMembers)]
}

// serverLines returns the values of a configuration's lines of servers by their ids.
func serverLines(config string) map[int64]string {
	values := make(map[int64]string)
	for line := range strings.Lines(config) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		var id int64
		if n, _ := fmt.Sscanf(key, "server.%d", &id); n == 1 {
			values[id] = value
		}
	}
	return values
}

// Address returns where the Asker reaches a server, by the value of its line, or "" if the line
// does not say it. Of a port with TLS and one without it takes the one that suits it, but if
// there is only one, that. The host of a server that listens at all its addresses is that of
// its peer address.
func (a Asker) Address(value string) string {
	peer, ports, _ := strings.Cut(value, ";")
	at, secure, _ := strings.Cut(ports, ";")
	if at == "" || a.TLS != nil && secure != "" {
		at = secure
	}
	if at == "" {
		return ""
	}
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		host, port = "", at
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = peerHost(peer)
	}
	return net.JoinHostPort(host, port)
}

// peerHost returns the host of host:port:port or [v6]:port:port.
func peerHost(peer string) string {
	if rest, ok := strings.CutPrefix(peer, "["); ok {
		host, _, _ := strings.Cut(rest, "]")
		return host
	}
	host, _, _ := strings.Cut(peer, ":")
	return host
}
