package auth

import (
	"net/netip"
	"strings"
)

// ipProvider is the scheme of remote addresses. A connection has its identity from the
// start, so its auth packets succeed and prove nothing new.
type ipProvider struct{}

func (ipProvider) Scheme() string { return schemeIP }
func (ipProvider) Personal() bool { return false }

func (ipProvider) ProvePacket([]byte) (Proof, error) { return Proof{}, nil }

func (ipProvider) Valid(expr string) bool {
	_, ok := parseBlock(expr)
	return ok
}

// Match reports whether the address id is in the block expr, both of one family. An
// IPv4 address received over an IPv6 socket counts as IPv4.
func (ipProvider) Match(id, expr string) bool {
	if id == expr {
		return true
	}
	block, ok := parseBlock(expr)
	if !ok {
		return false
	}
	addr, err := netip.ParseAddr(id)
	return err == nil && block.Contains(addr.Unmap().WithZone(""))
}

// parseBlock parses an address, or an address and a number of leading bits such as
// "10.0.0.0/8" or "2001:db8::/32". It ignores the bits of the address beyond those.
// Numbers with leading zeros or a sign are refused, though Apache accepts them: they are
// octal to some readers and decimal to others. IPv6 addresses with an IPv4 address in
// them, such as "::ffff:10.0.0.1", are refused as in Apache's server: the identity of a
// client with that address is the IPv4 address.
func parseBlock(expr string) (netip.Prefix, bool) {
	if strings.ContainsRune(expr, ':') && strings.ContainsRune(expr, '.') {
		return netip.Prefix{}, false
	}
	if strings.IndexByte(expr, '/') >= 0 {
		p, err := netip.ParsePrefix(expr)
		return p, err == nil
	}
	addr, err := netip.ParseAddr(expr)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(addr, addr.BitLen()), true
}
