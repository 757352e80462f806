package transport

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/keystore"
	"github.com/zkd-project/zkd/internal/testing/certs"
	"github.com/zkd-project/zkd/server/secure"
)

// authority makes the files of servers.
type authority struct {
	*certs.Authority
	t    testing.TB
	life time.Duration // of certificates; 0 is 100 years
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	return &authority{Authority: certs.New(t, "CA"), t: t}
}

// issue writes a key store and a trust store for names, and returns the options to use
// them.
func (a *authority) issue(dir string, names ...string) *TLS {
	a.t.Helper()
	about := &x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, // servers dial with it too
	}
	if a.life > 0 {
		about.NotBefore, about.NotAfter = time.Unix(0, 0), time.Now().Add(a.life)
	}
	return filesTLS(certs.Write(a.t, dir, names[0]+".pem", a.Sign(about).PEM(a.t)), certs.Write(a.t, dir, "trust.pem", a.CertPEM()))
}

// filesTLS returns options with the defaults of everything but the files.
func filesTLS(key, trust string) *TLS {
	return &TLS{Settings: secure.Settings{Files: keystore.Files{Key: keystore.Store{File: key}, Trust: keystore.Store{File: trust}}}}
}

// with is an option for TLS.
func with(o *TLS, change func(*TLS)) func(*Options) {
	return func(opts *Options) {
		if o == nil {
			return
		}
		c := *o
		if change != nil {
			change(&c)
		}
		opts.TLS = &c
	}
}

func TestTLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	one, two, strange := ca.issue(t.TempDir(), "s1"), ca.issue(t.TempDir(), "s2"), other.issue(t.TempDir(), "s2")
	host := func(o *TLS) { o.VerifyHost = true }
	ids := func(o *TLS) { o.IDName = "s{id}" }
	mode := func(m TLSMode) func(*TLS) { return func(o *TLS) { o.Mode = m } }
	tests := []struct {
		name     string
		one, two func(*Options)
		err      string // in a log; "" if they are linked
		plain    bool
	}{
		{"mutual", with(one, nil), with(two, nil), "", false},
		{"with host names", with(one, host), with(two, host), "", false},
		{"with ids", with(one, ids), with(two, ids), "", false},
		{"another authority", with(one, nil), with(strange, nil), "certificate signed by unknown authority", false},
		{"host name of another, accepted", with(one, host), with(one, nil), "which is none of its hosts", false},
		{"host name of another, dialed", with(two, nil), with(two, host), "certificate is valid for s2, not s1", false},
		{"id of another, accepted", with(one, ids), with(one, nil), "the certificate of server 2 is for CN=s1, s1, not for s2", false},
		{"id of another, dialed", with(two, nil), with(two, ids), "the certificate of server 1 is for CN=s2, s2, not for s1", false},
		{"plain to TLS", with(one, nil), with(nil, nil), "it does not speak TLS, and this server takes nothing else", false},
		{"TLS to plain", with(nil, nil), with(two, nil), "it speaks TLS, and this server does not", false},
		// A rolling upgrade: off, accepting, dialing, only.
		{"upgrade 1", with(nil, nil), with(two, mode(AcceptTLS)), "", true},
		{"upgrade 1 dialed", with(one, mode(AcceptTLS)), with(nil, nil), "", true},
		{"upgrade 2", with(one, mode(AcceptTLS)), with(two, mode(PlainAndTLS)), "", false},
		{"upgrade 2 dialed", with(one, mode(PlainAndTLS)), with(two, mode(AcceptTLS)), "", true},
		{"upgrade 3", with(one, mode(TLSOnly)), with(two, mode(PlainAndTLS)), "", false},
		{"TLS 1.2", with(one, func(o *TLS) { o.MaxVersion = 0x0303 }), with(two, nil), "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newMemNet()
				secret := func(o *Options) { o.Secret = []byte("and a secret too") }
				a, b := newNode(t, net, 1, 2, tt.one, secret), newNode(t, net, 2, 2, tt.two, secret)
				if tt.err != "" {
					time.Sleep(10 * time.Second)
					if a.links()+b.links() > 0 || a.logged(tt.err)+b.logged(tt.err) == 0 {
						t.Errorf("%d links; want %q in %v %v", a.links(), tt.err, a.logs.All(), b.logs.All())
					}
					return
				}
				within(t, time.Second, "a link", func() bool { return linked(a, b) })
				if a.said()[2].TLS == tt.plain || b.said()[1].TLS == tt.plain {
					t.Errorf("TLS: %t %t", a.said()[2].TLS, b.said()[1].TLS)
				}
				b.onStream = func(_ []byte, r io.Reader) error {
					_, err := io.Copy(io.Discard, r)
					return err
				}
				for i := range uint64(100) {
					a.send(2, i+1)
				}
				s := open(t, a, "")
				s.Write(pattern(300_000))
				err := s.Close()
				synctest.Wait()
				if err != nil || len(b.received()) != 100 {
					t.Errorf("over TLS: %v, %d messages", err, len(b.received()))
				}
			})
		})
	}
}

// TestPeerCertificateEnds: each server knows when the certificate of the other one expires. When one has, the other server says
// that there is no link for this reason, and it comes back with another certificate.
func TestPeerCertificateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t)
		dir := t.TempDir()
		one := ca.issue(t.TempDir(), "s1")
		ca.life = 10 * time.Second
		two, ends := ca.issue(dir, "s2"), time.Now().Add(ca.life)
		net := newMemNet()
		a, b := newNode(t, net, 1, 2, with(one, nil)), newNode(t, net, 2, 2, with(two, nil))
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
		if of2, of1 := a.tr.Peers()[0], b.tr.Peers()[0]; !of2.CertificateUntil.Equal(ends) || !of1.CertificateUntil.After(ends) || of2.CertificateError+of1.CertificateError != "" {
			t.Errorf("%v, want %v; %v, %q, %q", of2.CertificateUntil, ends, of1.CertificateUntil, of2.CertificateError, of1.CertificateError)
		}
		time.Sleep(ca.life + time.Second)
		net.reset("s1", "s2")
		time.Sleep(5 * time.Second)
		if of2 := a.tr.Peers()[0]; linked(a, b) || !of2.CertificateUntil.Equal(ends) || !strings.Contains(of2.CertificateError, "certificate has expired") {
			t.Errorf("afterwards %q", of2.CertificateError)
		}
		ca.life = 0
		ca.issue(dir, "s2", "more")
		within(t, 10*time.Second, "a link with another certificate", func() bool { return linked(a, b) })
		if of2, of1 := a.tr.Peers()[0], b.tr.Peers()[0]; of2.CertificateError+of1.CertificateError != "" || !of2.CertificateUntil.After(ends) {
			t.Errorf("in the end %q, %q, %v", of2.CertificateError, of1.CertificateError, of2.CertificateUntil)
		}
	})
}

// TestReload renews a certificate and then the authority, with a broken file in between.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t)
		dir := t.TempDir()
		one, two := ca.issue(t.TempDir(), "s1"), ca.issue(dir, "s2")
		net := newMemNet()
		a, b := newNode(t, net, 1, 2, with(one, nil)), newNode(t, net, 2, 2, with(two, nil))
		within(t, time.Second, "a link", func() bool { return linked(a, b) })
		again := func(links int) {
			t.Helper()
			net.reset("s1", "s2")
			within(t, 2*time.Second, "a new link", func() bool { return linked(a, b) && a.links() == links })
		}
		ca.issue(dir, "s2", "more") // another size
		again(2)
		if n := b.logged("read the TLS files again"); n != 1 {
			t.Errorf("%d lines about the new certificate", n)
		}
		certs.Write(t, "", two.Key.File, []byte("-----BEGIN NONSENSE"))
		again(3)
		if n := b.logged("staying with what they were"); n != 1 {
			t.Errorf("%d lines about the broken certificate", n)
		}
		newAuthority(t).issue(dir, "s2")
		net.reset("s1", "s2")
		time.Sleep(10 * time.Second)
		if linked(a, b) || b.logged("unknown authority") == 0 {
			t.Error("1 was believed by 2, which trusts another authority now")
		}
	})
}

// TestWrongFiles uses files that Apache would accept, or that are invalid. The error says
// what to do.
func TestWrongFiles(t *testing.T) {
	dir := t.TempDir()
	ca := newAuthority(t)
	good := ca.issue(dir, "s1")
	tests := []struct {
		name, content, want string
	}{
		{"store.jceks", "\xce\xce\xce\xce\x00\x00\x00\x02", "keytool -importkeystore -srckeystore"},
		{"store.jks", "\xfe\xed\xfe\xed\x00\x00\x00\x02", "it ends too soon"},
		{"text.pem", "hello", "it has no BEGIN line"},
		{"lonely.pem", string(ca.CertPEM()), "read the private key in " + filepath.Join(dir, "lonely.pem") + ": there is none"},
		{"old.pem", "-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: AES-128-CBC,00\n\n" + base64.StdEncoding.EncodeToString([]byte("x")) + "\n-----END RSA PRIVATE KEY-----\n", "openssl pkcs8"},
	}
	try := func(o TLS) error {
		_, err := New(Options{Self: 1, Handler: &node{}, TLS: &o})
		return err
	}
	for _, tt := range tests {
		name := certs.Write(t, dir, tt.name, []byte(tt.content))
		if err := try(*filesTLS(name, good.Trust.File)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if err := try(*filesTLS(good.Key.File, filepath.Join(dir, "none"))); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without trust: %v", err)
	}
	if err := try(*filesTLS(good.Key.File, "")); err == nil || !strings.Contains(err.Error(), "ssl.quorum.trustStore.location") {
		t.Errorf("without trust: %v", err)
	}
	if err := try(TLS{Settings: good.Settings, IDName: "zk"}); err == nil {
		t.Error("a name without {id} was accepted")
	}
	if err := try(*good); err != nil {
		t.Error(err)
	}
	if _, err := New(Options{Self: 1, Handler: &node{}, Peers: []Peer{{ID: 1, Addrs: []string{"nonsense"}}}}); err == nil {
		t.Error("an address without a port was accepted")
	}
}
