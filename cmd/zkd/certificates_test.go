package main

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/certs"
	"github.com/zkd-project/zkd/server/config"
)

// TestCertificateRemarks checks what is remarked of certificates between servers and for clients.
func TestCertificateRemarks(t *testing.T) {
	dir := t.TempDir()
	ca, now := certs.New(t, "CA"), time.Now()
	leaf := func(from, to time.Duration, names ...string) certs.Pair {
		return ca.Sign(&x509.Certificate{Subject: pkix.Name{CommonName: "leaf"}, DNSNames: names, NotBefore: now.Add(from), NotAfter: now.Add(to)})
	}
	const day = 24 * time.Hour
	certs.Write(t, dir, "ca.pem", ca.CertPEM())
	oldCA := certs.Write(t, dir, "old-ca.pem", ca.Sign(&x509.Certificate{Subject: pkix.Name{CommonName: "old CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: now.Add(-20 * day), NotAfter: now.Add(-day)}).CertPEM())
	for _, tt := range []struct {
		name  string
		key   certs.Pair
		trust string
		want  string // of each remark, after the port; words between | are alternatives of nothing
	}{
		{"good", leaf(-day, 90*day, "zk1"), "", ""},
		{"expired", leaf(-9*day, -day, "zk1"), "", "CN=leaf has expired"},
		{"soon", leaf(-9*day, 9*day, "zk1"), "", "CN=leaf expires on"},
		{"young", leaf(day, 90*day, "zk1"), "", "CN=leaf is not valid before"},
		{"another host", leaf(-day, 90*day, "zk2"), "", "zk1"},
		{"the common name", ca.Sign(&x509.Certificate{Subject: pkix.Name{CommonName: "zk1"}}), "", ""},
		{"an authority", leaf(-day, 90*day, "zk1"), oldCA, "CN=old CA has expired"},
	} {
		key := certs.Write(t, dir, "key.pem", tt.key.PEM(t))
		trust := tt.trust
		if trust == "" {
			trust = filepath.Join(dir, "ca.pem")
		}
		text := "dataDir=/d\ninitLimit=5\nsyncLimit=2\nzkd.myid=1\nsslQuorum=true\nsecureClientPort=2281\nserver.1=zk1:2888:3888\nserver.2=zk2:2888:3888\nserver.3=zk3:2888:3888\n"
		for _, prefix := range []string{"ssl.", "ssl.quorum."} {
			text += fmt.Sprintf("%skeyStore.location=%s\n%strustStore.location=%s\n", prefix, key, prefix, trust)
		}
		cfg, _, err := config.Parse(strings.NewReader(text), "zoo.cfg")
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		remarks := certificateRemarks(cfg, now)
		if tt.want == "" && len(remarks) == 0 {
			continue
		}
		if len(remarks) != 2 || tt.want == "" || !strings.HasPrefix(remarks[0], "ssl.quorum.") || !strings.HasPrefix(remarks[1], "ssl.") ||
			!strings.Contains(remarks[0], tt.want) || !strings.Contains(remarks[1], tt.want) {
			t.Errorf("%s: remarks %q", tt.name, remarks)
		}
	}
}

// TestSecretFilesAreRemarked checks that each file with a secret is remarked if other users can read it.
func TestSecretFilesAreRemarked(t *testing.T) {
	dir := t.TempDir()
	jaas, users := filepath.Join(dir, "jaas.conf"), filepath.Join(dir, "users")
	write(t, jaas, `Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="secret"; };`)
	write(t, users, "bob plain:secret\n")
	cfg, _, err := config.Parse(strings.NewReader("dataDir="+dir+"\nclientPort=2181\njava.security.auth.login.config="+jaas+"\nzkd.sasl.users="+users+"\n"), "zoo.cfg")
	if err != nil {
		t.Fatal(err)
	}
	if got := configRemarks(cfg); len(got) != 0 {
		t.Errorf("remarks on files of their owner: %q", got)
	}
	for _, name := range []string{jaas, users} {
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := configRemarks(cfg); len(got) != 1 || !strings.Contains(got[0], "chmod 600 "+name) {
			t.Errorf("remarks on %s: %q", name, got)
		}
		if err := os.Chmod(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	file := filepath.Join(dir, "zoo.cfg")
	write(t, file, "dataDir="+dir+"\nclientPort=2181\nDigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=\n")
	for mode, want := range map[os.FileMode]int{0o644: 1, 0o640: 0} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := config.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := configRemarks(cfg); len(got) != want || want > 0 && !strings.Contains(got[0], "superDigest: "+file) {
			t.Errorf("remarks on the file itself, of mode %o: %q", mode, got)
		}
	}
}
