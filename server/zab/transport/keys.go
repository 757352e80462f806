package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/server/secure"
	"github.com/zkd-project/zkd/server/zab"
)

// newTLS reads the TLS files.
func newTLS(o *TLS, log *zap.Logger) (*secure.TLS, error) {
	if o.Key.File == "" || o.Trust.File == "" {
		return nil, errors.New("transport: TLS between servers needs a certificate with its key, and whom to trust: " +
			"ssl.quorum.keyStore.location and ssl.quorum.trustStore.location")
	}
	if o.IDName != "" && !strings.Contains(o.IDName, "{id}") {
		return nil, fmt.Errorf("transport: the name %q that ties certificates to ids has no {id} in it", o.IDName)
	}
	t, err := secure.New(o.Settings, "quorum", log)
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	return t, nil
}

// dialTLS returns the configuration for dialing host.
func (t *Transport) dialTLS(host string) *tls.Config {
	if !t.o.TLS.VerifyHost {
		host = ""
	}
	return t.tls.Peer(host)
}

// Tick looks for changed TLS files and expiring certificates. It is called every few
// seconds.
func (t *Transport) Tick() {
	if t.tls != nil {
		t.tls.Tick()
	}
}

// CertificateExpiry returns when the first of the certificates expires; zero without TLS.
func (t *Transport) CertificateExpiry() time.Time {
	if t.tls == nil {
		return time.Time{}
	}
	return t.tls.Expiry()
}

// ListExpiry returns when the first of the revocation lists is out of date; zero without one.
func (t *Transport) ListExpiry() time.Time {
	if t.tls == nil {
		return time.Time{}
	}
	return t.tls.ListExpiry()
}

// ReloadFailure returns why changed TLS files can't be used, or nil if there is no such reason.
func (t *Transport) ReloadFailure() error {
	if t.tls == nil {
		return nil
	}
	return t.tls.ReloadFailure()
}

// checkCertificate checks that the peer's certificate may be that of server id. Peers
// without TLS have been admitted by the mode.
func (t *Transport) checkCertificate(nc net.Conn, id zab.SID) error {
	c, ok := nc.(*tls.Conn)
	if !ok {
		return nil
	}
	chain := c.ConnectionState().PeerCertificates
	p, leaf := t.active(id), chain[0]
	if p != nil {
		p.showed(chain)
	}
	if name := t.o.TLS.IDName; name != "" {
		name = strings.ReplaceAll(name, "{id}", fmt.Sprint(id))
		if !isNamed(leaf, name) {
			return refuse("certificate", fmt.Sprintf("the certificate of server %d is for %s, not for %s", id, describe(leaf), name))
		}
	}
	if !t.o.TLS.VerifyHost || p == nil {
		return nil
	}
	for _, addr := range p.configured() {
		if host, _, err := net.SplitHostPort(addr); err == nil && secure.VerifyHost(leaf, host) == nil {
			return nil
		}
	}
	return refuse("certificate", fmt.Sprintf("the certificate of server %d is for %s, which is none of its hosts in the configuration", id, describe(leaf)))
}

// isOfCertificates reports whether a connection failed because of a certificate, of either side.
func isOfCertificates(err error) bool {
	if causeOf(err) == "certificate" {
		return true
	}
	switch secure.Reason(err) {
	case "expired", "unknown_authority", "host", "revoked", "revocation_unknown", "bad_certificate", "no_certificate":
		return true
	case "refused_by_client":
		return strings.Contains(err.Error(), "certificate")
	}
	return false
}

func isNamed(leaf *x509.Certificate, name string) bool {
	return strings.EqualFold(leaf.Subject.CommonName, name) ||
		slices.ContainsFunc(leaf.DNSNames, func(n string) bool { return strings.EqualFold(n, name) })
}

// describe returns the subject of a certificate.
func describe(leaf *x509.Certificate) string {
	names := append([]string{leaf.Subject.String()}, leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return printable(strings.Join(names, ", "))
}
