package ocspstatus_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"github.com/zkd-project/zkd/internal/ocspstatus"
	"github.com/zkd-project/zkd/internal/testing/certs"
)

// FuzzOf changes answers. One that is accepted must be valid, and none of them causes a
// panic. server/secure tests the meaning of answers.
func FuzzOf(f *testing.F) {
	ca := certs.New(f, "CA")
	cert := ca.Issue("zk1").Cert
	delegate := ca.Sign(&x509.Certificate{Subject: pkix.Name{CommonName: "responder"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning}})
	for _, by := range []certs.Pair{ca.Pair, delegate} {
		for _, status := range []int{ocsp.Good, ocsp.Revoked, ocsp.Unknown} {
			answer := ocsp.Response{Status: status, SerialNumber: cert.SerialNumber, ThisUpdate: time.Unix(0, 0), NextUpdate: time.Now().AddDate(1, 0, 0), RevokedAt: time.Unix(0, 0)}
			if by.Cert != ca.Cert {
				answer.Certificate = by.Cert
			}
			der, err := ocsp.CreateResponse(ca.Cert, by.Cert, answer, by.Key)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(der)
		}
	}
	f.Add(ocsp.MalformedRequestErrorResponse)
	f.Fuzz(func(t *testing.T, answer []byte) {
		if _, until, err := ocspstatus.Of(answer, cert, ca.Cert); err == nil && until.Before(time.Now()) {
			t.Errorf("an answer that was valid until %v is accepted", until)
		}
	})
}
