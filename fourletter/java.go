package fourletter

import (
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// This file formats values like Java's toString.

// ID writes a session id or zxid.
func ID(v int64) string { return "0x" + strconv.FormatUint(uint64(v), 16) }

// Date writes a time in the format of java.util.Date.
func Date(t time.Time) string { return t.Format("Mon Jan 02 15:04:05 MST 2006") }

// Address writes a client's address: "/127.0.0.1:42318", or, with all the zeros of IPv6,
// "/[0:0:0:0:0:0:0:1]:42318".
func Address(a netip.AddrPort) string {
	if !a.IsValid() {
		return "null"
	}
	return "/" + SocketAddress(a)
}

// SocketAddress returns an address and a port as Java does, with the address as HostAddress:
// "127.0.0.1:42318", or "[0:0:0:0:0:0:0:1]:42318".
func SocketAddress(a netip.AddrPort) string {
	return net.JoinHostPort(HostAddress(a.Addr()), strconv.Itoa(int(a.Port())))
}

// HostAddress returns an address as Java's InetAddress.getHostAddress does: of IPv6 with all
// its zeros, as in the ids of the scheme ip of Apache's server.
func HostAddress(ip netip.Addr) string {
	ip = ip.Unmap()
	if !ip.Is6() {
		return ip.String()
	}
	b := ip.As16()
	groups := make([]string, 8)
	for i := range groups {
		groups[i] = strconv.FormatUint(uint64(b[2*i])<<8|uint64(b[2*i+1]), 16)
	}
	text := strings.Join(groups, ":")
	if zone := ip.Zone(); zone != "" {
		text += "%" + zone
	}
	return text
}

// Double writes a number rounded to four decimals in the format of a Java double: with at
// least one decimal, and with an exponent outside of 0.001 to 10,000,000.
func Double(v float64) string {
	if r := math.Round(v*1e4) / 1e4; !math.IsInf(r, 0) {
		v = r
	}
	switch abs := math.Abs(v); {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 0):
		return strings.Replace(strconv.FormatFloat(v, 'f', -1, 64), "+", "", 1) + "inity"
	case abs == 0 || abs >= 1e-3 && abs < 1e7:
		return withPoint(strconv.FormatFloat(v, 'f', -1, 64))
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'E', -1, 64), "E")
	n, _ := strconv.Atoi(exponent)
	return withPoint(mantissa) + "E" + strconv.Itoa(n)
}

func withPoint(s string) string {
	if strings.Contains(s, ".") {
		return s
	}
	return s + ".0"
}
