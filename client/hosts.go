package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/zkd-project/zkd/jute"
)

// DefaultPort is the port of servers that are listed without a port.
const DefaultPort = 2181

// ParseServers splits a connect string, "host:port,host:port/path", into the servers, each as
// host:port, and the path at its end, which is "" if there is none or if it is "/". An IPv6
// address with a port is written [::1]:2181. The path may also be at the end of each server,
// if it is always the same.
//
// The name of SRV records, such as _zookeeper._tcp.example.com, means the servers that
// the records list. It is returned unchanged, without a port. The client looks it up when it
// connects, and again before each further round over the servers, and so finds servers that
// were added. See Options.ResolveSRV.
func ParseServers(s string) (servers []string, root string, err error) {
	list := s
	if i := strings.IndexByte(s, '/'); i >= 0 {
		if list, root, err = splitRoot(s); err != nil {
			return nil, "", err
		}
		if root = strings.TrimSuffix(root, "/"); root != "" {
			err := jute.ValidatePath(root)
			if err == nil && root == "/" {
				err = errors.New("it has an empty component")
			}
			if err != nil {
				return nil, "", fmt.Errorf("path in %q: %w", s, err)
			}
		}
	}
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		server, err := parseServer(part)
		if err != nil {
			return nil, "", fmt.Errorf("server %q: %w; it should look like host:2181 or [::1]:2181", part, err)
		}
		servers = append(servers, server)
	}
	if len(servers) == 0 {
		return nil, "", fmt.Errorf("no server in %q; it should look like host:2181,host:2181/path", s)
	}
	return servers, root, nil
}

// splitRoot splits a connect string with a path. A comma may be in a path; but what follows
// one must not look like another server.
func splitRoot(s string) (list, root string, err error) {
	var servers []string
	same := true // each server has the same path
	for i, part := range strings.Split(s, ",") {
		server, path := part, ""
		if at := strings.IndexByte(part, '/'); at >= 0 {
			server, path = part[:at], strings.TrimSpace(part[at:])
		} else {
			same = false
		}
		if i == 0 {
			root = path
		}
		same = same && strings.TrimSuffix(path, "/") == strings.TrimSuffix(root, "/")
		servers = append(servers, server)
	}
	if same {
		return strings.Join(servers, ","), root, nil
	}
	i := strings.IndexByte(s, '/')
	for _, part := range strings.Split(s[i:], ",")[1:] {
		server, _, rooted := strings.Cut(strings.TrimSpace(part), "/")
		if _, err := parseServer(server); err == nil && (rooted || strings.Contains(server, ":")) {
			return "", "", fmt.Errorf("server %q after the path in %q: the path (chroot) stands once, at the end, as in host:2181,host:2181/path", server, s)
		}
	}
	return s[:i], s[i:], nil
}

func parseServer(s string) (string, error) {
	if isSRV(s) {
		return s, nil
	}
	if strings.ContainsAny(s, ";| \t") {
		return "", errors.New("servers are separated by commas")
	}
	switch bracketed := strings.HasPrefix(s, "["); {
	case net.ParseIP(s) != nil: // perhaps IPv6: its colons do not begin a port
		s = net.JoinHostPort(s, strconv.Itoa(DefaultPort))
	case bracketed && strings.HasSuffix(s, "]"), !strings.Contains(s, ":"):
		s += ":" + strconv.Itoa(DefaultPort)
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		addrErr := new(net.AddrError)
		if errors.As(err, &addrErr) {
			return "", errors.New(addrErr.Err)
		}
		return "", err
	}
	if host == "" {
		return "", errors.New("no host")
	}
	if s[0] == '[' && !strings.Contains(host, ":") {
		return "", errors.New("brackets are for IPv6 addresses")
	}
	if i := strings.IndexFunc(host, notInHost); i >= 0 {
		return "", fmt.Errorf("no name of a host has a %q", host[i:i+1])
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", fmt.Errorf("port %q is not a number from 1 to 65535", port)
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}

func notInHost(r rune) bool { return r == '[' || r == ']' || unicode.IsSpace(r) || !unicode.IsPrint(r) }

// isSRV reports whether a name is that of SRV records, _service._protocol.domain.
func isSRV(s string) bool {
	return strings.HasPrefix(s, "_") && strings.Contains(s, "._") && !strings.Contains(s, ":")
}

// hosts selects the next server to try, and the pause before each round over all servers.
// Only the session's main goroutine uses it, except for list, which does not change while
// there is a connection.
type hosts struct {
	listed []string // as configured: servers, and names of SRV records
	srv    bool     // listed contains names of SRV records
	fixed  bool     // keep the order
	list   []string // the servers; nil until the SRV records have been looked up
	next   int
	// tried is the number of servers tried since the last connection that lasted, or since
	// the round began.
	tried int
	pause time.Duration // the last pause, without jitter
	rand  *rand.Rand
}

// The pauses between rounds over all servers grow from the first to the last.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 2 * time.Second
)

func newHosts(listed []string, fixed bool, r *rand.Rand) *hosts {
	h := &hosts{listed: listed, srv: slices.ContainsFunc(listed, isSRV), fixed: fixed, rand: r}
	if !h.srv {
		h.set(h.listed)
	}
	return h
}

// set replaces the servers.
func (h *hosts) set(list []string) {
	h.list, h.next = append([]string{}, list...), 0
	if !h.fixed {
		h.rand.Shuffle(len(h.list), func(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] })
	}
}

// exhausted reports whether every server has been tried, so that a round has to begin.
func (h *hosts) exhausted() bool { return h.tried >= len(h.list) }

// backOff returns the pause before the next round. It grows from round to round, and gets up
// to half as much at random, so that the clients do not all come at once. Before the first
// lookup of SRV records it is zero.
func (h *hosts) backOff() time.Duration {
	if h.list == nil {
		return 0
	}
	h.pause = min(max(2*h.pause, firstPause), lastPause)
	return h.pause/2 + time.Duration(h.rand.Int64N(int64(h.pause)))
}

// round begins a round over all servers, with the current servers of SRV records from lookup.
// If lookup finds none, the previous servers are tried again.
func (h *hosts) round(lookup func(name string) []string) {
	h.tried = 0
	if !h.srv {
		return
	}
	var list []string
	for _, entry := range h.listed {
		servers := []string{entry}
		if isSRV(entry) {
			servers = lookup(entry)
		}
		for _, s := range servers {
			if !slices.Contains(list, s) {
				list = append(list, s)
			}
		}
	}
	if len(list) > 0 || h.list == nil {
		h.set(list)
	}
}

// pick returns the server to try next. There must be one: see exhausted.
func (h *hosts) pick() string {
	server := h.list[h.next]
	h.next = (h.next + 1) % len(h.list)
	h.tried++
	return server
}

// held records that the last server picked took the session and kept the connection for a
// while. A server that closes the connection at once must not be tried again without a pause.
func (h *hosts) held() { h.tried, h.pause = 0, 0 }

// prefer makes the server the next pick.
func (h *hosts) prefer(server string) {
	for i, s := range h.list {
		if s == server {
			h.next = i
		}
	}
}
