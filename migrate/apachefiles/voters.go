package apachefiles

import (
	"bytes"
	"iter"
	"net"
	"strconv"
	"strings"
)

// Config returns the text of the configuration node, nil if there is none.
func (t *Tree) Config() []byte {
	if config := t.find(configPath); config != nil {
		return config.Data
	}
	return nil
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
	for _, server := range voters(config) {
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

// voters yields the id and the part for other servers of each line of a server with a vote.
func voters(config []byte) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for line := range bytes.Lines(config) {
			key, value, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
			server, _, _ := strings.Cut(value, ";")
			id, named := strings.CutPrefix(key, "server.")
			if !named || strings.HasSuffix(server, ":observer") {
				continue
			}
			n, _ := strconv.Atoi(id) // 0, as for a server without an id
			if !yield(n, server) {
				return
			}
		}
	}
}
