package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
)

// counters count handshakes by their results.
type counters struct {
	sync.Mutex
	byResult map[string]uint64
}

// Observe counts a handshake, which has failed with err, or succeeded if that is nil.
func (t *TLS) Observe(err error) {
	result := "ok"
	if err != nil {
		result = Reason(err)
	}
	t.handshakes.Lock()
	defer t.handshakes.Unlock()
	if t.handshakes.byResult == nil {
		t.handshakes.byResult = make(map[string]uint64)
	}
	t.handshakes.byResult[result]++
}

// ErrPlain means that the client does not speak TLS.
var ErrPlain = errors.New("the client does not speak TLS")

// Reason returns the class of a failed handshake, a word.
func Reason(err error) string {
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	switch text := err.Error(); {
	case errors.Is(err, ErrPlain):
		return "plain"
	case is[tls.RecordHeaderError](err):
		return "garbage"
	case is[*RevokedError](err):
		return "revoked"
	case is[*UnknownRevocationError](err):
		return "revocation_unknown"
	case is[x509.HostnameError](err):
		return "host"
	case isInvalid && invalid.Reason == x509.Expired:
		return "expired"
	case is[x509.UnknownAuthorityError](err):
		return "unknown_authority"
	case isInvalid || is[*tls.CertificateVerificationError](err):
		return "bad_certificate"
	case strings.Contains(text, "didn't provide a certificate"):
		return "no_certificate"
	case strings.Contains(text, "unsupported versions"):
		return "version"
	case strings.Contains(text, "no cipher suite"):
		return "cipher_suite"
	case is[tls.AlertError](err), strings.Contains(text, "remote error"):
		return "refused_by_client"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "hung_up"
	}
	return "other"
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func (t *TLS) desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, prometheus.Labels{"port": t.port})
}

func (t *TLS) expiryDesc() *prometheus.Desc {
	return t.desc("zkd_tls_certificate_not_after_seconds", "When a certificate or a revocation list expires, as Unix time.", "of", "subject", "serial")
}

func (t *TLS) handshakesDesc() *prometheus.Desc {
	return t.desc("zkd_tls_handshakes_total", "TLS handshakes, by result: ok, or the reason of the failure.", "result")
}

func (t *TLS) failuresDesc() *prometheus.Desc {
	return t.desc("zkd_tls_reload_failures_total", "How often changed TLS files could not be used.")
}

func (t *TLS) failingDesc() *prometheus.Desc {
	return t.desc("zkd_tls_reload_failing", "1 while changed TLS files can't be used, and those of before are.")
}

// ReloadFailure returns why changed files can't be used, or nil if there is no such reason.
func (t *TLS) ReloadFailure() error { return t.source.Failure() }

// Describe lists the metrics.
func (t *TLS) Describe(ch chan<- *prometheus.Desc) {
	ch <- t.expiryDesc()
	ch <- t.handshakesDesc()
	ch <- t.failuresDesc()
	ch <- t.failingDesc()
}

// Collect reads the metrics.
func (t *TLS) Collect(ch chan<- prometheus.Metric) {
	seen := make(map[string]bool) // a trust store may list an authority twice
	for x := range t.expiring(t.source.Contents()) {
		labels := []string{x.of, x.subject, x.serial}
		if key := strings.Join(labels, "\n"); !seen[key] {
			seen[key] = true
			ch <- prometheus.MustNewConstMetric(t.expiryDesc(), prometheus.GaugeValue, float64(x.until.Unix()), labels...)
		}
	}
	ch <- prometheus.MustNewConstMetric(t.failuresDesc(), prometheus.CounterValue, float64(t.source.Failures()))
	failing := 0.0
	if t.ReloadFailure() != nil {
		failing = 1
	}
	ch <- prometheus.MustNewConstMetric(t.failingDesc(), prometheus.GaugeValue, failing)
	t.handshakes.Lock()
	defer t.handshakes.Unlock()
	for result, n := range t.handshakes.byResult {
		ch <- prometheus.MustNewConstMetric(t.handshakesDesc(), prometheus.CounterValue, float64(n), result)
	}
}
