package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/sasl"
	"github.com/zkd-project/zkd/client/sasl/scram"
	"github.com/zkd-project/zkd/client/secure"
	"github.com/zkd-project/zkd/internal/testing/certs"
)

// TestLoginsOfAFileOfUsers makes a file of users as an operator does, and logs in by each
// mechanism of the client, on a port without TLS and on one with it.
func TestLoginsOfAFileOfUsers(t *testing.T) {
	dir := t.TempDir()
	var users bytes.Buffer
	for name, mechanism := range map[string]string{"bob": "SCRAM-SHA-256", "ann": "SCRAM-SHA-512"} {
		cmd := newRoot(&bytes.Buffer{})
		cmd.SetArgs([]string{"sasl-user", name, "--mechanism", mechanism})
		cmd.SetIn(strings.NewReader("password of " + name + "\n"))
		cmd.SetOut(&users)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "users")
	write(t, file, users.String())
	authority := certs.New(t, "test")
	key := certs.Write(t, dir, "key.pem", authority.Issue("localhost", "127.0.0.1").PEM(t))
	securePort := freePorts(t, 1)[0]
	r := serving(t, "--set", "clientPortAddress=127.0.0.1", "--set", "zkd.sasl.users="+file, "--set", "sessionRequireClientSASLAuth=true",
		"--set", "secureClientPort="+securePort, "--set", "secureClientPortAddress=127.0.0.1", "--set", "ssl.clientAuth=none", "--set", "ssl.keyStore.location="+key)
	roots := x509.NewCertPool()
	roots.AddCert(authority.Cert)
	bob, ann := "password of bob", "password of ann"
	for _, tt := range []struct {
		name  string
		login func(string) (sasl.Mechanism, error)
		tls   bool
		id    string // "" if the login fails
	}{
		{"SCRAM-SHA-256", scram.SHA256("bob", bob), false, "bob"},
		{"SCRAM-SHA-256 over TLS", scram.SHA256("bob", bob), true, "bob"},
		{"SCRAM-SHA-512", scram.SHA512("ann", ann), false, "ann"},
		{"another hash than the verifier's", scram.SHA512("bob", bob), false, ""},
		{"a wrong password", scram.SHA256("bob", ann), false, ""},
		{"an unknown user", scram.SHA256("eve", bob), false, ""},
		{"PLAIN over TLS", sasl.Plain("bob", bob), true, "bob"},
		{"PLAIN over TLS, a wrong password", sasl.Plain("bob", ann), true, ""},
	} {
		o := client.Options{SASL: tt.login, Logger: client.NoLog}
		port := r.port
		if tt.tls {
			port, o.Secure = securePort, secure.TLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
		}
		c, err := client.New(net.JoinHostPort("127.0.0.1", port), o)
		if err != nil {
			t.Fatal(err)
		}
		ids, err := c.Session().WhoAmI(t.Context())
		if got := slices.ContainsFunc(ids, func(id client.Identity) bool { return id.Scheme == "sasl" && id.User == tt.id }); got != (tt.id != "") {
			t.Errorf("%s: identities %v, error %v", tt.name, ids, err)
		}
		_ = c.Close(t.Context())
	}
}
