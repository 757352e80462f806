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

// getTLS gets a page from localhost, whose certificate is of ca if it has one.
func getTLS(ca *certs.Authority, url string, certificate ...tls.Certificate) (string, error) {
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
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

// TestAdminPagesWithTLS opens the AdminServer's port with each combination of its keys, and
// comes with and without TLS and a certificate.
func TestAdminPagesWithTLS(t *testing.T) {
	dir, ca := t.TempDir(), certs.New(t, "CA")
	own := []string{
		"--set", "ssl.quorum.keyStore.location=" + certs.Write(t, dir, "key.pem", ca.Issue("127.0.0.1", "localhost").PEM(t)),
		"--set", "ssl.quorum.trustStore.location=" + certs.Write(t, dir, "trust.pem", ca.CertPEM()),
		"--set", "admin.serverPort=0",
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
				body, err := getTLS(ca, try.scheme+at+"/livez", try.certificates...)
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

// TestMetricsWithTLS opens the metrics endpoint with TLS, with each combination of its keys.
func TestMetricsWithTLS(t *testing.T) {
	dir, ca := t.TempDir(), certs.New(t, "CA")
	key := certs.Write(t, dir, "key.pem", ca.Issue("127.0.0.1", "localhost").PEM(t))
	own := []string{
		"--set", prometheusProvider, "--set", "metricsProvider.httpsPort=0", "--set", "metricsProvider.httpHost=127.0.0.1",
		"--set", "metricsProvider.ssl.keyStore.location=" + key,
	}
	trust := "metricsProvider.ssl.trustStore.location=" + certs.Write(t, dir, "trust.pem", ca.CertPEM())
	certificate, stranger := ca.Issue("somebody").TLS(), certs.New(t, "another CA").Issue("somebody").TLS()
	const optional, none = "metricsProvider.ssl.need.client.auth=false", "metricsProvider.ssl.want.client.auth=false"
	for _, tt := range []struct {
		keys                    []string
		without, with, stranger bool
	}{
		{[]string{trust}, false, true, false},
		{[]string{trust, optional}, true, true, true}, // the stranger does not show what the server did not ask for
		{[]string{optional}, true, true, true},
		{[]string{trust, optional, none}, true, true, true},
	} {
		t.Run(strings.Join(tt.keys, " "), func(t *testing.T) {
			args := own
			for _, key := range tt.keys {
				args = append(args[:len(args):len(args)], "--set", key)
			}
			r := serving(t, args...)
			at := r.log.await(t, `serving metrics.*"address": "([^"]*)"`)
			for _, try := range []struct {
				what         string
				certificates []tls.Certificate
				works        bool
			}{
				{"without a certificate", nil, tt.without},
				{"with a certificate", []tls.Certificate{certificate}, tt.with},
				{"with a stranger's certificate", []tls.Certificate{stranger}, tt.stranger},
			} {
				body, err := getTLS(ca, "https://"+at+"/metrics", try.certificates...)
				if (err == nil && strings.Contains(body, `port="metrics"`)) != try.works {
					t.Errorf("%s: %.500q, %v", try.what, body, err)
				}
			}
			if body, err := getTLS(ca, "http://"+at+"/metrics"); err == nil {
				t.Errorf("without TLS: %q", body)
			}
			r.stop() // the test's end reports it; the log is complete now
			if n := strings.Count(r.log.String(), "serving metrics"); n != 1 {
				t.Errorf("%d endpoints are open", n)
			}
		})
	}
	t.Run("both", func(t *testing.T) {
		r := serving(t, append(own, "--set", trust, "--set", "metricsProvider.httpPort=0")...)
		fetch(t, "http://"+r.log.await(t, `serving metrics.*"address": "([^"]*)"}`)+"/metrics")
		r.log.await(t, `serving metrics.*"tls": true, "address": "([^"]*)"`)
	})
	for _, bad := range [][2]string{
		{"metricsProvider.ssl.keyStore.location=" + key, "metricsProvider.ssl.trustStore.location: is missing"},
		{"metricsProvider.httpPort=0", "metricsProvider.ssl.keyStore.location: is missing"},
	} {
		err := run(t.Context(), []string{"--data-dir", dir, "--set", prometheusProvider, "--set", "metricsProvider.httpsPort=0", "--set", bad[0]}, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), bad[1]) {
			t.Errorf("%s: %v, want %s", bad[0], err, bad[1])
		}
	}
}
