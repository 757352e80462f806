package apachefiles

import (
	"bytes"
	"iter"
	"net"
	"strings"
)

// Voters returns the number of servers with a vote in the configuration node, 0 if it names
// none.
func (t *Tree) Voters() int {
	if config := t.find(configPath); config != nil {
		return Voters(config.Data)
	}
	return 0
}

// Voters returns the number of servers with a vote in the text of a configuration node.
func Voters(config []byte) (n int) {
	for range voters(config) {
		n++
	}
	return n
}

// Ports returns the addresses at which servers with a vote listen for each other, by the text of a
// configuration node: their quorum and election ports. Those at all addresses of a host, such as
// 0.0.0.0, are left out, since the text does not say which host that is.
func Ports(config []byte) (addrs []string) {
	for server := range voters(config) {
		for place := range strings.SplitSeq(server, "|") {
			host, ports, ok := strings.Cut(place, ":")
			if rest, bracket := strings.CutPrefix(place, "["); bracket {
				host, ports, ok = strings.Cut(rest, "]:")
			}
			list := strings.Split(ports, ":")
			if !ok || len(list) < 2 || host == "" || net.ParseIP(host).IsUnspecified() {
				continue
			}
			addrs = append(addrs, net.JoinHostPort(host, list[0]), net.JoinHostPort(host, list[1]))
		}
	}
	return addrs
}

// voters yields the part for other servers of each line of a server with a vote.
func voters(config []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range bytes.Lines(config) {
			key, value, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
			server, _, _ := strings.Cut(value, ";")
			if strings.HasPrefix(key, "server.") && !strings.HasSuffix(server, ":observer") && !yield(server) {
				return
			}
		}
	}
}
