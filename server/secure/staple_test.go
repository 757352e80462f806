package secure

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ocsp"

	"github.com/zkd-project/zkd/internal/testing/certs"
)

// withResponder issues a certificate for zk1 that names the responder.
func withResponder(ca *certs.Authority) certs.Pair {
	return ca.Sign(&x509.Certificate{Subject: pkix.Name{CommonName: "zk1"}, DNSNames: []string{"zk1"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, OCSPServer: []string{"http://ca.example/none", responderURL}})
}

// TestStaple follows the OCSP answer of a port through its life.
func TestStaple(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRevocations(t, false, false)
		dir := t.TempDir()
		p, logged := newTLS(t, r.ca, func(s *Settings) {
			s.Staple = true
			s.ClientAuth = NoClientAuth
			s.Key.File = certs.Write(t, dir, "server.pem", withResponder(r.ca).PEM(t))
		})
		p.revocation.http.Transport = &r.web
		status := func() string {
			t.Helper()
			config, got := clientOf(r.ca), "no handshake"
			config.VerifyConnection = func(s tls.ConnectionState) error {
				got = "none"
				if len(s.OCSPResponse) > 0 {
					answer, err := ocsp.ParseResponseForCert(s.OCSPResponse, s.PeerCertificates[0], r.ca.Cert)
					if err != nil {
						return err
					}
					got = map[int]string{ocsp.Good: "good", ocsp.Revoked: "revoked"}[answer.Status]
				}
				return nil
			}
			if errServer, errClient := shake(p, config); errServer != nil || errClient != nil {
				t.Error(errServer, errClient)
			}
			return got
		}
		after := func(d time.Duration, when, want string) {
			t.Helper()
			time.Sleep(d)
			p.Tick()
			synctest.Wait()
			if got := status(); got != want {
				t.Errorf("%s: the staple is %s, want %s", when, got, want)
			}
		}
		if got := status(); got != "none" {
			t.Errorf("before the first tick: the staple is %s", got)
		}
		after(0, "while nobody answers", "none")
		r.respond(r.ca.Pair, ocsp.Good, -time.Hour, 10*time.Minute)
		after(time.Second, "before it is asked again", "none")
		after(stapleRetry, "with a responder", "good")
		asked := r.web.asked
		after(4*time.Minute, "soon after", "good")
		if r.web.asked != asked {
			t.Error("the responder is asked before half of the answer's time")
		}
		delete(r.web.pages, responderURL)
		after(2*time.Minute, "while nobody answers again", "good")
		after(5*time.Minute, "at the end of the answer", "none")
		r.respond(certs.New(t, "CA").Pair, ocsp.Good, -time.Hour, time.Hour)
		after(stapleRetry, "with a forged answer", "none")
		r.respond(r.ca.Pair, ocsp.Unknown, -time.Hour, time.Hour)
		after(stapleRetry, "with a responder that does not know the certificate", "none")
		r.respond(r.ca.Pair, ocsp.Good, -time.Hour, 48*time.Hour)
		after(stapleRetry, "with a responder", "good")
		r.respond(r.ca.Pair, ocsp.Revoked, -time.Hour, 48*time.Hour)
		after(goodMemory, "when the certificate has been revoked", "revoked")
		if logged.FilterMessage("the server's own certificate has been revoked").Len() != 1 {
			t.Error("the log does not say that the certificate has been revoked")
		}
		r.respond(r.ca.Pair, ocsp.Good, -time.Hour, 48*time.Hour)
		certs.Write(t, dir, "server.pem", append(withResponder(r.ca).PEM(t), '\n'))
		if got := status(); got != "none" {
			t.Errorf("with another certificate: the staple is %s", got)
		}
		after(0, "with another certificate", "good")
		certs.Write(t, dir, "server.pem", append(r.ca.Issue("zk1").PEM(t), "\n\n"...))
		after(0, "with one that names no responder", "none")
		if n := logged.FilterMessage("no OCSP answer to staple").Len(); n != 3 {
			t.Errorf("%d lines in the log that there is no answer, want 3", n)
		}
	})
}

// TestStapleIsImpossible starts with certificates that can't have a staple.
func TestStapleIsImpossible(t *testing.T) {
	ca, other := certs.New(t, "CA"), certs.New(t, "other")
	dir := t.TempDir()
	for _, test := range []struct {
		name string
		key  []byte
		want string
	}{
		{"no responder", ca.Issue("zk1").PEM(t), "names no OCSP responder"},
		{"no authority", withResponder(other).PEM(t), "neither after it nor in the trust store"},
		{"its authority after it", append(withResponder(other).PEM(t), other.CertPEM()...), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := Settings{Staple: true}
			s.Key.File = certs.Write(t, dir, "key.pem", test.key)
			s.Trust.File = certs.Write(t, dir, "trust.pem", ca.CertPEM())
			_, err := New(s, "client", nil)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v; want %q", err, test.want)
			}
		})
	}
}
