package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/internal/testing/certs"
)

// pair returns a private key and a self-signed certificate for it.
func pair(t *testing.T) (key, cert []byte) {
	t.Helper()
	p := certs.SelfSigned(t, &x509.Certificate{Subject: pkix.Name{CommonName: "zk1"}})
	return p.KeyPEM(t), p.CertPEM()
}

// TestQuorumTLS loads configurations with real keys and certificates.
func TestQuorumTLS(t *testing.T) {
	dir := t.TempDir()
	key, cert := pair(t)
	_, other := pair(t)
	encrypted, err := os.ReadFile("../../internal/keystore/testdata/encrypted.pem") // its password is "changeit"
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"ca.pem": cert, "good.pem": bytes.Join([][]byte{key, cert}, nil), "good.key": bytes.Join([][]byte{cert, key}, nil),
		"nokey.pem": cert, "nocert.pem": key, "wrong.pem": bytes.Join([][]byte{key, other}, nil),
		"encrypted.pem": encrypted, "password": []byte("changeit\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	q := func(name string) string { return "ssl.quorum.keyStore.location=" + filepath.Join(dir, name) + "\n" }
	trust := "ssl.quorum.trustStore.location=" + filepath.Join(dir, "ca.pem") + "\n"
	both := QuorumTLS{Dial: true, Accept: true}
	both.VerifyHost, both.MinVersion, both.MaxVersion = true, tls.VersionTLS12, tls.VersionTLS13
	change := func(f func(*QuorumTLS)) QuorumTLS { c := both; f(&c); return c }

	for _, test := range []struct {
		name, text, problem string // part of the error, or of the warning
		want                QuorumTLS
	}{
		{"off", "", "", change(func(c *QuorumTLS) { c.Dial, c.Accept, c.AcceptPlain = false, false, true })},
		{"on", "sslQuorum=true\n" + q("good.pem") + trust, "", both},
		{"any name, any order", "sslQuorum=true\n" + q("good.key") + trust, "", both},
		{"first step of a change", "portUnification=true\n" + q("good.pem") + trust, "",
			change(func(c *QuorumTLS) { c.Dial, c.AcceptPlain = false, true })},
		{"second step of a change", "sslQuorum=true\nportUnification=true\n" + q("good.pem") + trust, "",
			change(func(c *QuorumTLS) { c.AcceptPlain = true })},
		{"options", "sslQuorum=true\nssl.quorum.hostnameVerification=false\nssl.quorum.enabledProtocols=TLSv1.3\n" + q("good.pem") + trust, "",
			change(func(c *QuorumTLS) { c.VerifyHost, c.MinVersion = false, tls.VersionTLS13 })},
		{"keys of Apache's that go without saying", "sslQuorum=true\nssl.quorum.clientAuth=none\n" + q("good.pem") + trust, "always has to show", both},
		{"encrypted key with its password", "sslQuorum=true\nssl.quorum.keyStore.password=changeit\n" + q("encrypted.pem") + trust, "",
			change(func(c *QuorumTLS) { c.Key.Password = secret.NewText("changeit") })},
		{"encrypted key with its password in a file", "sslQuorum=true\nssl.quorum.keyStore.password=x\nssl.quorum.keyStore.passwordPath=" +
			filepath.Join(dir, "password") + "\n" + q("encrypted.pem") + trust, "", change(func(c *QuorumTLS) {
			c.Key.Password, c.Key.PasswordFile = secret.NewText("x"), filepath.Join(dir, "password")
		})},
		{"old protocols beside new ones", "sslQuorum=true\nssl.quorum.enabledProtocols=TLSv1.1,TLSv1.2\n" + q("good.pem") + trust,
			"only TLSv1.2 and TLSv1.3", change(func(c *QuorumTLS) { c.MaxVersion = tls.VersionTLS12 })},
		{"passwords of files that have none", "sslQuorum=true\nssl.quorum.keyStore.password=x\nssl.quorum.trustStore.passwordPath=/x\n" +
			q("good.pem") + trust, "is not needed", both},
		{"no key", "sslQuorum=true\n" + q("nokey.pem") + trust, "the private key in " + filepath.Join(dir, "nokey.pem") + ": there is none", QuorumTLS{}},
		{"no certificate", "sslQuorum=true\n" + q("nocert.pem") + trust, "the certificate in " + filepath.Join(dir, "nocert.pem") + ": there is none", QuorumTLS{}},
		{"key of another certificate", "sslQuorum=true\n" + q("wrong.pem") + trust, "does not match", QuorumTLS{}},
		{"encrypted key", "sslQuorum=true\n" + q("encrypted.pem") + trust, "is encrypted", QuorumTLS{}},
		{"no file with the password", "sslQuorum=true\nssl.quorum.keyStore.passwordPath=/nosuch\n" + q("encrypted.pem") + trust, "the password of " + filepath.Join(dir, "encrypted.pem") + ": read /nosuch: no such file", QuorumTLS{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, warnings, err := Parse(strings.NewReader("dataDir=/d\nclientPort=2181\n"+test.text), "zoo.cfg")
			remarks := ""
			for _, w := range warnings {
				remarks += w.String() + "\n"
			}
			if reflect.DeepEqual(test.want, QuorumTLS{}) {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("error %v, want one with %q", err, test.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := c.QuorumTLS
			got.Key.File, got.Trust.File = "", ""
			if !strings.Contains(test.text, "encrypted.pem") {
				got.Key.Password, got.Trust.PasswordFile = secret.Text{}, ""
			}
			if !reflect.DeepEqual(got, test.want) || !strings.Contains(remarks, test.problem) || test.problem == "" && remarks != "" {
				t.Errorf("got %+v, want %+v; remarks:\n%s", got, test.want, remarks)
			}
		})
	}
}

// TestQuorumSASL asks for SASL between servers that have certificates.
func TestQuorumSASL(t *testing.T) {
	key, cert := pair(t)
	file := filepath.Join(t.TempDir(), "all.pem")
	if err := os.WriteFile(file, slices.Concat(key, cert), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "dataDir=/d\nclientPort=2181\ninitLimit=5\nsyncLimit=2\nzkd.myid=1\nserver.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n" +
		"ssl.quorum.keyStore.location=" + file + "\nssl.quorum.trustStore.location=" + file + "\nquorum.auth.enableSasl=true\n"
	_, warnings, err := Parse(strings.NewReader(text+"sslQuorum=true\n"), "zoo.cfg")
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].String(), "authenticate each other by certificates") {
		t.Errorf("%v, %v", warnings, err)
	}
	_, _, err = Parse(strings.NewReader(text+"sslQuorum=true\nportUnification=true\n"), "zoo.cfg")
	if err == nil || !strings.Contains(err.Error(), "quorum.auth.enableSasl: asks for protection") {
		t.Errorf("links without TLS: %v", err)
	}
}
