package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/zkd-project/zkd/jute"
)

// DefaultPort is the port of servers that are listed without one.
const DefaultPort = 2181

// ParseServers splits a connect string, "host:port,host:port/path", into the
// servers, each as host:port, and the path that it ends in ("" if there is none,
// or if it is "/"). An IPv6 address with a port is written [::1]:2181.
func ParseServers(s string) (servers []string, root string, err error) {
	list := s
	if i := strings.IndexByte(s, '/'); i >= 0 {
		list, root = s[:i], s[i:]
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
	for _, part := range strings.Split(list, ",") {
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

func parseServer(s string) (string, error) {
	switch bracketed := strings.HasPrefix(s, "["); {
	case net.ParseIP(s) != nil: // of IPv6 perhaps, whose colons don't begin a port
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

// hosts says which server to try next, and how long to pause before. The
// session's main goroutine alone uses it.
type hosts struct {
	list []string
	next int
	// tried counts the servers that have been tried since the last connection that
	// held, or since the last pause.
	tried int
	pause time.Duration // the last one, without jitter
	rand  *rand.Rand
}

// The pauses between rounds over all servers grow from the first to the last.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 2 * time.Second
)

func newHosts(list []string, fixed bool, r *rand.Rand) *hosts {
	h := &hosts{list: append([]string(nil), list...), rand: r}
	if !fixed {
		r.Shuffle(len(h.list), func(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] })
	}
	return h
}

// pick returns the server to try next, and how long to wait before: not at all
// until each has been tried, and then longer from round to round, by chance up to
// half as long again as without, so that clients don't come all at once.
func (h *hosts) pick() (server string, wait time.Duration) {
	if h.tried >= len(h.list) {
		h.tried = 0
		h.pause = min(max(2*h.pause, firstPause), lastPause)
		wait = h.pause/2 + time.Duration(h.rand.Int64N(int64(h.pause)))
	}
	server = h.list[h.next]
	h.next = (h.next + 1) % len(h.list)
	h.tried++
	return server, wait
}

// held tells that the last pick took the session and kept its connection for a
// while. One that hangs up at once must not be tried again without a pause.
func (h *hosts) held() { h.tried, h.pause = 0, 0 }

// prefer makes the server the next pick.
func (h *hosts) prefer(server string) {
	for i, s := range h.list {
		if s == server {
			h.next = i
		}
	}
}
