package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/certs"
)

// TestAdminPagesWithTLS opens the AdminServer's port with each combination of its keys, and
// comes with and without TLS and a certificate.
func TestAdminPagesWithTLS(t *testing.T) {
	dir, ca := t.TempDir(), certs.New(t, "CA")
	own := []string{
		"--set", "ssl.quorum.keyStore.location=" + certs.Write(t, dir, "key.pem", ca.Issue("127.0.0.1", "localhost").PEM(t)),
		"--set", "ssl.quorum.trustStore.location=" + certs.Write(t, dir, "trust.pem", ca.CertPEM()),
		"--set", "admin.serverPort=0",
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	get := func(url string, certificate ...tls.Certificate) (string, error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost", Certificates: certificate}}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Get(url)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	certificate, stranger := ca.Issue("somebody").TLS(), certs.New(t, "another CA").Issue("somebody").TLS()
	for _, tt := range []struct {
		keys                           string
		plain, secure, known, stranger bool
	}{
		{"", true, false, false, false},
		{"admin.portUnification=true", true, true, true, true},
		{"admin.forceHttps=true", false, true, true, true},
		{"admin.forceHttps=true admin.portUnification=true", false, true, true, true},
		{"admin.forceHttps=true admin.needClientAuth=true", false, false, true, false},
	} {
		t.Run(tt.keys, func(t *testing.T) {
			args := own
			if tt.keys == "" {
				args = own[4:]
			}
			for key := range strings.FieldsSeq(tt.keys) {
				args = append(args[:len(args):len(args)], "--set", key)
			}
			r := serving(t, args...)
			at := r.log.await(t, `serving admin pages.*"address": "([^"]*)"`)
			for _, try := range []struct {
				what         string
				scheme       string
				certificates []tls.Certificate
				works        bool
			}{
				{"without TLS", "http://", nil, tt.plain},
				{"with TLS", "https://", nil, tt.secure},
				{"with a certificate", "https://", []tls.Certificate{certificate}, tt.known},
				{"with a stranger's certificate", "https://", []tls.Certificate{stranger}, tt.stranger},
			} {
				body, err := get(try.scheme+at+"/livez", try.certificates...)
				if (err == nil && strings.HasSuffix(body, "ok\n")) != try.works {
					t.Errorf("%s: %q, %v", try.what, body, err)
				}
			}
			// One that says nothing holds up neither others nor the end.
			silent, err := net.Dial("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
		})
	}
	if err := run(t.Context(), []string{"--data-dir", dir, "--set", "admin.needClientAuth=true"}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "needs admin.forceHttps=true") {
		t.Errorf("needClientAuth alone: %v", err)
	}
}
