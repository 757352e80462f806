package secure

import (
	"crypto/x509"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/keystore"
)

const (
	expiryWarning = 30 * 24 * time.Hour // before a certificate expires
	expiryRepeat  = 24 * time.Hour
)

// Tick looks for changed files, renews the OCSP answer, and warns once a day of certificates
// that expire soon. It is called every few seconds.
func (t *TLS) Tick() {
	c := t.source.Contents()
	now := time.Now()
	t.refreshStaple(c, now)
	t.expiry.Lock()
	defer t.expiry.Unlock()
	if c == t.expiry.of && now.Sub(t.expiry.checked) < expiryRepeat {
		return
	}
	t.expiry.of, t.expiry.checked = c, now
	for kind, cert := range certificates(c) {
		left := cert.NotAfter.Sub(now)
		fields := []zap.Field{zap.String("port", t.port), zap.String("of", kind), zap.Stringer("subject", cert.Subject), zap.Time("until", cert.NotAfter)}
		switch {
		case left <= 0:
			t.log.Error("a TLS certificate has expired", fields...)
		case left < expiryWarning:
			t.log.Warn("a TLS certificate expires soon", fields...)
		}
	}
}

// Expiry returns when the first of the port's certificates expires; zero if it has none.
func (t *TLS) Expiry() (first time.Time) {
	for _, cert := range certificates(t.source.Contents()) {
		if first.IsZero() || cert.NotAfter.Before(first) {
			first = cert.NotAfter
		}
	}
	return first
}

// certificates yields the certificates that must not expire, and what each is for.
func certificates(c *keystore.Contents) func(yield func(kind string, cert *x509.Certificate) bool) {
	return func(yield func(string, *x509.Certificate) bool) {
		for _, key := range c.KeysAt(time.Now()) {
			if !yield("server", key.Leaf) {
				return
			}
		}
		for _, cert := range c.Authorities {
			if !yield("authority", cert) {
				return
			}
		}
	}
}
