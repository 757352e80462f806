package config

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/server/secure"
)

// rsaPair is pair with an RSA key.
func rsaPair(t *testing.T) (key, cert []byte) {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, about, about, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
}

// negotiated loads a configuration with these lines, and returns the version and the cipher suite
// that a client gets from its server: "none" if the handshake fails.
func negotiated(t *testing.T, lines string, client *tls.Config) string {
	t.Helper()
	c, _, err := Parse(strings.NewReader("dataDir=/d\nsecureClientPort=2281\nssl.clientAuth=none\n"+lines), "zoo.cfg")
	if err != nil {
		return err.Error()
	}
	port, err := secure.New(c.ClientTLS.Settings, "client", nil)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		defer far.Close()
		tls.Server(far, port.Accept(far.RemoteAddr(), nil)).Handshake() // the client tells
	}()
	stream := tls.Client(near, client)
	if stream.Handshake() != nil {
		return "none"
	}
	state := stream.ConnectionState()
	return tls.VersionName(state.Version) + " " + tls.CipherSuiteName(state.CipherSuite)
}

// TestCipherSuites names each suite as Java does, and as IANA does, and looks which one a client
// that has all of them gets.
func TestCipherSuites(t *testing.T) {
	dir := t.TempDir()
	store := func(name string, key, cert []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, bytes.Join([][]byte{key, cert}, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		return "ssl.keyStore.location=" + file + "\n"
	}
	ecKey, ecCert := pair(t)
	rsaKey, rsaCert := rsaPair(t)
	withEC, withRSA := store("ec.pem", ecKey, ecCert), store("rsa.pem", rsaKey, rsaCert)
	var all []uint16
	var all13 []string
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		all = append(all, s.ID)
		if slices.Contains(s.SupportedVersions, tls.VersionTLS13) {
			all13 = append(all13, s.Name)
		}
	}
	client := func(version uint16) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, CipherSuites: all, MaxVersion: version} // the server is no question here
	}
	check := func(lines string, version uint16, want string) {
		t.Helper()
		if got := negotiated(t, lines, client(version)); got != want && (!strings.Contains(want, "has no cipher suite") || !strings.Contains(got, want)) {
			t.Errorf("%s with %s: got %s, want %s", lines, tls.VersionName(version), got, want)
		}
	}
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if slices.Contains(all13, s.Name) {
			continue
		}
		keys, list := withRSA, "ssl.ciphersuites="+s.Name
		if strings.Contains(s.Name, "_ECDSA_") {
			keys = withEC
		}
		check(keys+list, tls.VersionTLS12, "TLS 1.2 "+s.Name)
		check(keys+list, tls.VersionTLS13, "TLS 1.2 "+s.Name) // as in Java, no suite of TLS 1.3 turns that off
		check(keys+strings.Replace(list, "=TLS_", "=SSL_", 1), tls.VersionTLS12, "TLS 1.2 "+s.Name)
		check(keys+list+"\nssl.protocol=TLSv1.3", tls.VersionTLS13, "zoo.cfg:5: ssl.ciphersuites: \""+s.Name+"\": there is no cipher suite for the version of TLS that is allowed")
	}
	const gcm = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
	for _, tc := range []struct {
		lines string
		want  [2]string // of clients with TLS 1.2 at most, and with TLS 1.3
	}{
		{withEC, [2]string{"TLS 1.2 " + gcm, "TLS 1.3 TLS_AES_128_GCM_SHA256"}},
		{withEC + "ssl.ciphersuites=" + strings.Join(all13, ","), [2]string{"none", "TLS 1.3 TLS_AES_128_GCM_SHA256"}},
		{withEC + "ssl.ciphersuites=" + gcm + "," + strings.Join(all13, ","), [2]string{"TLS 1.2 " + gcm, "TLS 1.3 TLS_AES_128_GCM_SHA256"}},
		{withEC + "ssl.ciphersuites=" + gcm + "\nssl.enabledProtocols=TLSv1.2,TLSv1.3", [2]string{"TLS 1.2 " + gcm, "TLS 1.2 " + gcm}},
		{withEC + "ssl.ciphersuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", [2]string{"none", "none"}}, // for another kind of key
		{withEC + "ssl.protocol=TLSv1.2", [2]string{"TLS 1.2 " + gcm, "TLS 1.2 " + gcm}},
		{withEC + "ssl.enabledProtocols=TLSv1.3", [2]string{"none", "TLS 1.3 TLS_AES_128_GCM_SHA256"}},
		// Java has these, and Go does not.
		{withRSA + "ssl.ciphersuites=TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", [2]string{"has no cipher suite TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "has no cipher suite"}},
		{withEC + "ssl.ciphersuites=" + gcm + ",TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", [2]string{"TLS 1.2 " + gcm, "TLS 1.2 " + gcm}},
		{withEC + "ssl.ciphersuites=TLS_DHE_RSA_WITH_AES_128_GCM_SHA256," + strings.Join(all13, ","), [2]string{"none", "TLS 1.3 TLS_AES_128_GCM_SHA256"}},
	} {
		check(tc.lines, tls.VersionTLS12, tc.want[0])
		check(tc.lines, tls.VersionTLS13, tc.want[1])
	}
}
