package secure

import (
	"crypto/x509"
	"iter"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/expiry"
	"github.com/zkd-project/zkd/internal/keystore"
)

const expiryRepeat = 24 * time.Hour

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
	for x := range t.expiring(c) {
		left, soon, what := x.until.Sub(now), expiry.Certificate, "a TLS certificate"
		if x.of == revocationList {
			soon, what = expiry.RevocationList, "a revocation list, without which certificates of its issuer are refused,"
		}
		fields := []zap.Field{zap.String("port", t.port), zap.String("of", x.of), zap.String("subject", x.subject), zap.Time("until", x.until)}
		switch {
		case left <= 0:
			t.log.Error(what+" has expired", fields...)
		case left < soon:
			t.log.Warn(what+" expires soon", fields...)
		}
	}
}

// Expiry returns when the first of the port's certificates expires; zero if it has none.
func (t *TLS) Expiry() time.Time {
	return t.first(func(x expiring) bool { return x.of != revocationList })
}

// ListExpiry returns when the first of the port's revocation lists is out of date; zero if it has none.
func (t *TLS) ListExpiry() time.Time {
	return t.first(func(x expiring) bool { return x.of == revocationList })
}

func (t *TLS) first(counts func(expiring) bool) (first time.Time) {
	for x := range t.expiring(t.source.Contents()) {
		if counts(x) && (first.IsZero() || x.until.Before(first)) {
			first = x.until
		}
	}
	return first
}

// expiring is something that must not expire.
type expiring struct {
	of              string // what it is: "server", "chain", "authority" or revocationList
	subject, serial string
	until           time.Time
}

const revocationList = "revocation list"

// expiring yields the certificates and revocation lists that must not expire.
func (t *TLS) expiring(c *keystore.Contents) iter.Seq[expiring] {
	of := func(kind string, cert *x509.Certificate) expiring {
		return expiring{kind, cert.Subject.String(), cert.SerialNumber.Text(16), cert.NotAfter}
	}
	return func(yield func(expiring) bool) {
		for _, key := range c.KeysAt(time.Now()) {
			for i, der := range key.Certificate {
				kind := "chain"
				if i == 0 {
					kind = "server"
				}
				if cert, err := x509.ParseCertificate(der); err == nil && !yield(of(kind, cert)) {
					return
				}
			}
		}
		for _, cert := range c.Authorities {
			if !yield(of("authority", cert)) {
				return
			}
		}
		for _, list := range c.CRLs {
			if !t.CRL || list.NextUpdate.IsZero() {
				continue
			}
			number := ""
			if list.Number != nil {
				number = list.Number.Text(16)
			}
			if !yield(expiring{revocationList, list.Issuer.String(), number, list.NextUpdate}) {
				return
			}
		}
	}
}
