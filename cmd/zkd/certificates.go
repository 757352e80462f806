package main

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/expiry"
	"github.com/zkd-project/zkd/internal/keystore"
	"github.com/zkd-project/zkd/server/config"
	"github.com/zkd-project/zkd/server/secure"
)

// certificateRemarks returns remarks on certificates that are not valid at a time, or soon will not be, and on
// those that do not name the host on which the other side finds this server.
func certificateRemarks(cfg *config.Config, now time.Time) (remarks []string) {
	quorum, client := &cfg.QuorumTLS, &cfg.ClientTLS
	for _, p := range []struct {
		prefix string
		used   bool
		files  keystore.Files
		hosts  []string // all of which the certificate must name
		any    []string // one of which it should name
	}{
		{"ssl.quorum.", quorum.Accept, quorum.Files, quorumHosts(cfg), nil},
		{"ssl.", client.Used(), client.Files, nil, clientHosts(cfg)},
		{"metricsProvider.ssl.", cfg.Metrics && cfg.MetricsTLS.Port >= 0, cfg.MetricsTLS.Files, nil, nil},
	} {
		if !p.used {
			continue
		}
		c, err := p.files.Read(nil)
		if err != nil {
			continue // which config.Load has said
		}
		for _, key := range c.KeysAt(now) {
			at := p.prefix + "keyStore.location: " + p.files.Key.File + ": the certificate "
			for _, der := range key.Certificate {
				if cert, err := x509.ParseCertificate(der); err == nil {
					remarks = appendNonEmpty(remarks, at, validity(cert, now))
				}
			}
			remarks = appendNonEmpty(remarks, at, naming(key.Leaf, p.hosts, p.any))
		}
		for _, cert := range c.Authorities {
			remarks = appendNonEmpty(remarks, p.prefix+"trustStore.location: "+p.files.Trust.File+": the certificate ", validity(cert, now))
		}
	}
	return remarks
}

func appendNonEmpty(list []string, before, text string) []string {
	if text == "" {
		return list
	}
	return append(list, before+text)
}

// validity says what is wrong with the dates of a certificate, "" if nothing is.
func validity(cert *x509.Certificate, now time.Time) string {
	const day = "2006-01-02 15:04 MST"
	switch {
	case now.Before(cert.NotBefore):
		return fmt.Sprintf("of %s is not valid before %s", cert.Subject, cert.NotBefore.UTC().Format(day))
	case now.After(cert.NotAfter):
		return fmt.Sprintf("of %s has expired, on %s", cert.Subject, cert.NotAfter.UTC().Format(day))
	case now.Add(expiry.Certificate).After(cert.NotAfter):
		return fmt.Sprintf("of %s expires on %s", cert.Subject, cert.NotAfter.UTC().Format(day))
	}
	return ""
}

// naming says which of hosts a certificate does not name, or that it names none of other ones.
func naming(cert *x509.Certificate, hosts, other []string) string {
	wrong := func(host string) bool { return secure.VerifyHost(cert, host) != nil }
	if i := slices.IndexFunc(hosts, wrong); i >= 0 {
		return fmt.Sprintf("of %s does not name %s, the host of this server's line: the other servers refuse it (ssl.quorum.hostnameVerification)", cert.Subject, hosts[i])
	}
	if len(other) > 0 && !slices.ContainsFunc(other, func(host string) bool { return !wrong(host) }) {
		return fmt.Sprintf("of %s names no host of this server that is known here (%s): clients that verify names need one that is in it in their list of servers", cert.Subject, strings.Join(other, ", "))
	}
	return ""
}

// quorumHosts returns the hosts that other servers dial, if they compare them.
func quorumHosts(cfg *config.Config) (hosts []string) {
	if !cfg.Replicated() || !cfg.QuorumTLS.VerifyHost {
		return nil
	}
	self := cfg.Self()
	for _, a := range self.Addrs {
		hosts = append(hosts, a.Host)
	}
	return hosts
}

// clientHosts returns the names and addresses by which clients may know this server.
func clientHosts(cfg *config.Config) (hosts []string) {
	add := func(host string) {
		if addr, err := netip.ParseAddr(host); host != "" && (err != nil || !addr.IsUnspecified()) {
			hosts = append(hosts, host)
		}
	}
	add(cfg.ClientTLS.Address)
	if cfg.Replicated() {
		self := cfg.Self()
		for _, a := range self.Addrs {
			add(a.Host)
		}
	}
	if name, err := os.Hostname(); err == nil {
		add(name)
	}
	return append(hosts, "localhost", "127.0.0.1", "::1")
}
