package api

import (
	"net"
	"net/http"
	"net/netip"
)

// CheckOrigin refuses what a page of another origin has sent by its reader's browser. Such a page has no way to read
// answers, as none allows another origin, but its requests could change something; and a name that its owner makes resolve to an address of this
// machine would make the page one of the same origin. With TLS the certificate rules out such names; without TLS
// the host has to be an address, localhost, or the name that the configuration gives.
func CheckOrigin(r *http.Request, host string) error {
	if err := CheckHost(r, host); err != nil {
		return err
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return refuse(http.StatusForbidden, "the request comes from a page of another origin")
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != scheme(r)+"://"+r.Host {
		return refuse(http.StatusForbidden, "the request comes from a page of the origin %q", origin)
	}
	return nil
}

// CheckHost refuses a request for a host that others may have made resolve to this server: see CheckOrigin. host is a
// name that the configuration gives.
func CheckHost(r *http.Request, host string) error {
	if r.TLS == nil && !ownHost(r.Host, host) {
		return refuse(http.StatusForbidden, "without TLS, the host of a request is an address, localhost or admin.serverAddress, and not %q", r.Host)
	}
	return nil
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// ownHost reports whether nobody else can have made the host of a request resolve to this server. A program of HTTP/1.0 names none.
func ownHost(host, configured string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	} else if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		name = host[1 : len(host)-1]
	}
	_, err := netip.ParseAddr(name)
	return err == nil || name == "" || name == "localhost" || name == configured
}
