package secure

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"github.com/zkd-project/zkd/internal/testing/certs"
)

// authority signs certificates, and keeps them in files.
type authority struct {
	*certs.Authority
	t   *testing.T
	dir string
}

func newAuthority(t *testing.T, name string) *authority {
	return &authority{certs.New(t, name), t, t.TempDir()}
}

// ca writes the authority's certificate and returns the file.
func (a *authority) ca() string { return a.write("ca.pem", a.CertPEM()) }

// issue writes a certificate, good for both sides, and its key.
func (a *authority) issue(name string, c *x509.Certificate) (certFile, keyFile string) {
	a.t.Helper()
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	p := a.Sign(c)
	return a.write(name+".crt", p.CertPEM()), a.write(name+".key", p.KeyPEM(a.t))
}

// write makes a file, and checks that its time differs from the one before.
func (a *authority) write(name string, b []byte) string {
	a.t.Helper()
	file := filepath.Join(a.dir, name)
	before, statErr := os.Stat(file)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		a.t.Fatal(err)
	}
	if statErr == nil {
		later := before.ModTime().Add(time.Second)
		if err := os.Chtimes(file, later, later); err != nil {
			a.t.Fatal(err)
		}
	}
	return file
}

// shake makes a TLS connection to a server with the certificate, as the session
// would to the host, and returns the client's certificate as the server saw it, what
// the client said of the connection, and what the server said.
func shake(t *testing.T, add func(context.Context, net.Conn, string) (net.Conn, error), host string, server *tls.Config) (seen *x509.Certificate, clientErr, serverErr error) {
	t.Helper()
	ours, theirs := tcpPair(t)
	served := make(chan error, 1)
	go func() {
		tc := tls.Server(theirs, server)
		err := tc.HandshakeContext(t.Context())
		if certs := tc.ConnectionState().PeerCertificates; len(certs) > 0 {
			seen = certs[0]
		}
		if err == nil {
			_, err = tc.Write([]byte("x"))
		}
		theirs.Close()
		served <- err
	}()
	nc, clientErr := add(t.Context(), ours, host)
	if clientErr == nil {
		_, clientErr = nc.Read(make([]byte, 1))
	}
	ours.Close()
	serverErr = <-served
	return seen, clientErr, serverErr
}

// tcpPair returns the two ends of a connection. Those of net.Pipe have no buffer,
// and TLS may write at both ends at once.
func tcpPair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if ours, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if theirs, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

func loadPair(t *testing.T, certFile, keyFile string) []tls.Certificate {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return []tls.Certificate{cert}
}

func TestFilesVerify(t *testing.T) {
	good, other := newAuthority(t, "good"), newAuthority(t, "other")
	names := func() *x509.Certificate {
		return &x509.Certificate{DNSNames: []string{"zk1.example.com", "*.pods.example.com"}, IPAddresses: []net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("fd00::1")}}
	}
	expired := names()
	expired.NotBefore, expired.NotAfter = time.Unix(0, 0), time.Now().Add(-time.Minute)
	nameless := &x509.Certificate{Subject: pkix.Name{CommonName: "zk1.example.com"}}

	configs, err := Files{CA: good.ca()}.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, host string
		by         *authority
		cert       *x509.Certificate
		want       string
	}{
		{"name", "zk1.example.com", good, names(), ""},
		{"name in capitals", "ZK1.Example.com", good, names(), ""},
		{"name with a dot", "zk1.example.com.", good, names(), ""},
		{"wildcard", "zk-0.pods.example.com", good, names(), ""},
		{"IPv4", "10.0.0.1", good, names(), ""},
		{"IPv6", "fd00::1", good, names(), ""},
		{"wrong name", "zk2.example.com", good, names(), "list the server under a name of its certificate"},
		{"wrong IP", "10.0.0.2", good, names(), "10.0.0.2"},
		{"no names", "zk1.example.com", good, nameless, "legacy Common Name"},
		{"expired", "zk1.example.com", good, expired, "renew the server's certificate"},
		{"untrusted", "zk1.example.com", other, names(), "has to be in secure.Files.CA"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cert, key := c.by.issue("server", c.cert)
			_, err, _ := shake(t, For(configs), c.host, &tls.Config{Certificates: loadPair(t, cert, key)})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("host %s: %v; want %q", c.host, err, c.want)
			}
		})
	}
}

func TestFilesClientCertificate(t *testing.T) {
	servers, clients, other := newAuthority(t, "servers"), newAuthority(t, "clients"), newAuthority(t, "other")
	cert, key := servers.issue("server", &x509.Certificate{DNSNames: []string{"zk1"}})
	server := &tls.Config{Certificates: loadPair(t, cert, key), ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	server.ClientCAs.AddCert(clients.Cert)

	mine, mineKey := clients.issue("app", &x509.Certificate{Subject: pkix.Name{CommonName: "app"}})
	theirs, theirsKey := other.issue("app", &x509.Certificate{Subject: pkix.Name{CommonName: "app"}})
	a, err := os.ReadFile(mine)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(mineKey)
	if err != nil {
		t.Fatal(err)
	}
	both := clients.write("both.pem", append(b, a...))
	for _, c := range []struct {
		name  string
		files Files
		want  string
	}{
		{"two files", Files{Cert: mine, Key: mineKey}, ""},
		{"one file", Files{Cert: both}, ""},
		{"none", Files{}, "of an authority that it trusts"},
		{"untrusted", Files{Cert: theirs, Key: theirsKey}, "of an authority that it trusts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.files.CA = servers.ca()
			configs, err := c.files.Load()
			if err != nil {
				t.Fatal(err)
			}
			seen, err, _ := shake(t, For(configs), "zk1", server)
			switch {
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want %q", err, c.want)
			case c.want == "" && (err != nil || seen == nil || seen.Subject.CommonName != "app"):
				t.Errorf("error %v, the server saw %v", err, seen)
			}
		})
	}
}

// TestFilesReload renews everything under a client that runs, with files that
// are broken for a while.
func TestFilesReload(t *testing.T) {
	var log bytes.Buffer
	old, renewed := newAuthority(t, "old"), newAuthority(t, "renewed")
	renewed.dir = old.dir
	ca := old.ca()
	certFile, keyFile := old.issue("app", &x509.Certificate{Subject: pkix.Name{CommonName: "old"}})
	configs, err := Files{CA: ca, Cert: certFile, Key: keyFile, Logger: slog.New(slog.NewTextHandler(&log, nil))}.Load()
	if err != nil {
		t.Fatal(err)
	}
	o := For(configs)
	server := func(a *authority) *tls.Config {
		cert, key := a.issue("server", &x509.Certificate{DNSNames: []string{"zk1"}})
		return &tls.Config{Certificates: loadPair(t, cert, key), ClientAuth: tls.RequireAnyClientCert}
	}
	oldServer, newServer := server(old), server(renewed)
	check := func(when string, with, without *tls.Config, name string) {
		t.Helper()
		if seen, err, _ := shake(t, o, "zk1", with); err != nil || seen.Subject.CommonName != name {
			t.Errorf("%s: %v, the server saw %v", when, err, seen)
		}
		if _, err, _ := shake(t, o, "zk1", without); err == nil {
			t.Errorf("%s: the other authority is believed", when)
		}
	}
	check("at first", oldServer, newServer, "old")

	old.write("ca.pem", []byte("half writ"))
	check("while a file is broken", oldServer, newServer, "old")
	if !strings.Contains(log.String(), "ca.pem is neither PEM") {
		t.Errorf("log: %s", log.String())
	}
	log.Reset()
	check("still", oldServer, newServer, "old")
	if log.Len() > 0 {
		t.Errorf("the same file is complained about again: %s", log.String())
	}

	renewed.ca()
	renewed.issue("app", &x509.Certificate{Subject: pkix.Name{CommonName: "new"}})
	check("after the renewal", newServer, oldServer, "new")
}

// A key as openssl encrypts it is read with its password.
func TestFilesEncryptedKey(t *testing.T) {
	b, err := os.ReadFile("../../internal/keystore/testdata/plain.pem")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(b)
	plain, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key := plain.(crypto.Signer)
	a := newAuthority(t, "a")
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "app"}}, a.Cert, key.Public(), a.Key)
	if err != nil {
		t.Fatal(err)
	}
	cert := a.write("app.crt", certs.Pair{Cert: &x509.Certificate{Raw: der}}.CertPEM())
	const locked = "../../internal/keystore/testdata/key-aes256-hmacWithSHA256.pem"
	configs, err := Files{Cert: cert, Key: locked, Password: "changeit"}.Load()
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := configs("zk1")
	if err != nil || len(cfg.Certificates) != 1 || cfg.Certificates[0].Leaf.Subject.CommonName != "app" {
		t.Errorf("%v, %v", cfg, err)
	}
	if _, err := (Files{Cert: cert, Key: locked, Password: "wrong"}).Load(); err == nil || !strings.Contains(err.Error(), "password is wrong") {
		t.Errorf("with a wrong password: %v", err)
	}
}

// TestFilesOfJava loads the files of a Java client.
func TestFilesOfJava(t *testing.T) {
	const dir = "../../internal/keystore/testdata/"
	for _, kind := range []string{".jks", ".p12"} {
		f := Files{CA: dir + "trust" + kind, Cert: dir + "key" + kind, Password: "changeit"}
		config, err := f.Load()
		if err != nil {
			t.Fatal(err)
		}
		c, err := config("zk1")
		if err != nil || c.RootCAs == nil || len(c.Certificates) != 1 || c.Certificates[0].Leaf.Subject.CommonName != "zk1.example.com" {
			t.Errorf("%s: %v, %v", kind, c, err)
		}
	}
}

func TestFilesErrors(t *testing.T) {
	a := newAuthority(t, "a")
	cert, key := a.issue("app", &x509.Certificate{})
	otherCert, _ := a.issue("other", &x509.Certificate{})
	jceks := a.write("store.jks", []byte{0xce, 0xce, 0xce, 0xce, 0, 0, 0, 2})
	der := a.write("cert.der", a.Cert.Raw)
	text := a.write("text", []byte("hello"))
	locked := a.write("locked.key", pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")}))
	old := a.write("old.key", []byte("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"))
	for _, c := range []struct {
		files Files
		want  []string
	}{
		{Files{CA: a.dir + "/none"}, []string{a.dir + "/none", "no such file"}},
		{Files{CA: key}, []string{key, "no certificate of an authority"}},
		{Files{CA: jceks}, []string{jceks, "keytool -importkeystore"}},
		{Files{CA: der}, []string{der, "openssl x509 -inform der"}},
		{Files{CA: text}, []string{text, "no BEGIN line"}},
		{Files{Key: key}, []string{key, "Files.Cert has to be"}},
		{Files{Cert: cert}, []string{cert, "private key"}},
		{Files{Cert: cert, Key: a.dir + "/none"}, []string{a.dir + "/none", "no such file"}},
		{Files{Cert: otherCert, Key: key}, []string{otherCert, key, "does not match"}},
		{Files{Cert: cert, Key: locked}, []string{locked, "is encrypted", "Files.Password"}},
		{Files{Cert: cert, Key: old}, []string{old, "is encrypted", "openssl pkcs8"}},
	} {
		_, err := c.files.Load()
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v; want %q in it", c.files, err, want)
			}
		}
	}
}

func TestTLSPlainServer(t *testing.T) {
	ours, theirs := tcpPair(t)
	go func() {
		theirs.Read(make([]byte, 1<<16))   // the client tells
		theirs.Write([]byte("plain text")) // likewise
		theirs.Close()
	}()
	_, err := TLS(&tls.Config{})(t.Context(), ours, "zk1")
	if err == nil || !strings.Contains(err.Error(), "is it the secureClientPort?") {
		t.Errorf("error %v", err)
	}
}

func TestTLSNone(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	defer ours.Close()
	if nc, err := TLS(nil)(t.Context(), ours, "zk1"); nc != ours || err != nil {
		t.Errorf("without TLS: %v, %v", nc, err)
	}
	failing := For(func(server string) (*tls.Config, error) { return nil, errors.New("nothing for " + server) })
	if _, err := failing(t.Context(), ours, "zk1"); err == nil || !strings.Contains(err.Error(), "nothing for zk1") {
		t.Errorf("error %v", err)
	}
}

// TestFilesStaple connects to servers with and without an OCSP answer.
func TestFilesStaple(t *testing.T) {
	a, other := newAuthority(t, "good"), newAuthority(t, "other")
	certFile, keyFile := a.issue("server", &x509.Certificate{DNSNames: []string{"zk1"}})
	pair := loadPair(t, certFile, keyFile)
	staple := func(by *authority, status int, until time.Duration) []byte {
		der, err := ocsp.CreateResponse(by.Cert, by.Cert, ocsp.Response{
			Status: status, SerialNumber: pair[0].Leaf.SerialNumber, ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(until), RevokedAt: time.Now(),
		}, by.Key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	for _, c := range []struct {
		name           string
		staple         []byte
		want, required string // parts of the errors, without RequireStaple and with it
	}{
		{"none", nil, "", "has stapled no OCSP answer"},
		{"good", staple(a, ocsp.Good, time.Hour), "", ""},
		{"revoked", staple(a, ocsp.Revoked, time.Hour), "has been revoked", "has been revoked"},
		{"old", staple(a, ocsp.Good, -time.Minute), "", "its answer was valid until"},
		{"unknown", staple(a, ocsp.Unknown, time.Hour), "", "does not know the certificate"},
		{"of another authority", staple(other, ocsp.Good, time.Hour), "", "the stapled OCSP answer: "},
		{"damaged", []byte("damaged"), "", "the stapled OCSP answer: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			for require, want := range map[bool]string{false: c.want, true: c.required} {
				configs, err := Files{CA: a.ca(), RequireStaple: require}.Load()
				if err != nil {
					t.Fatal(err)
				}
				server := pair[0]
				server.OCSPStaple = c.staple
				_, err, _ = shake(t, For(configs), "zk1", &tls.Config{Certificates: []tls.Certificate{server}})
				if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("RequireStaple=%t: %v; want %q", require, err, want)
				}
			}
		})
	}
}
