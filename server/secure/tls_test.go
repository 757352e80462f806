package secure

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/crypto/ocsp"

	"github.com/zkd-project/zkd/internal/keystore"
	"github.com/zkd-project/zkd/internal/testing/certs"
)

// newTLS returns the TLS of a port whose server has a certificate of ca for zk1.
func newTLS(t *testing.T, ca *certs.Authority, change func(*Settings)) (*TLS, *observer.ObservedLogs) {
	t.Helper()
	dir := t.TempDir()
	s := Settings{Files: keystore.Files{
		Key:   keystore.Store{File: certs.Write(t, dir, "key.pem", ca.Issue("zk1").PEM(t))},
		Trust: keystore.Store{File: certs.Write(t, dir, "trust.pem", ca.CertPEM())},
	}}
	if change != nil {
		change(&s)
	}
	core, logged := observer.New(zap.InfoLevel)
	p, err := New(s, "client", zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	return p, logged
}

// half is one direction of a connection in memory. A writer never waits, so the ends may
// send alerts at the same time.
type half struct {
	sync.Mutex
	change sync.Cond
	buf    []byte
	closed bool
}

// end is an end of a connection.
type end struct {
	net.Conn // nil: what is not below is not used
	in, out  *half
}

func connect() (a, b end) {
	x, y := new(half), new(half)
	x.change.L, y.change.L = x, y
	return end{in: x, out: y}, end{in: y, out: x}
}

func (e end) Read(p []byte) (int, error) {
	e.in.Lock()
	defer e.in.Unlock()
	for len(e.in.buf) == 0 && !e.in.closed {
		e.in.change.Wait()
	}
	if len(e.in.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(p, e.in.buf)
	e.in.buf = e.in.buf[n:]
	return n, nil
}

func (e end) Write(p []byte) (int, error) {
	e.out.Lock()
	defer e.out.Unlock()
	e.out.buf = append(e.out.buf, p...)
	e.out.change.Broadcast()
	return len(p), nil
}

func (e end) Close() error {
	e.out.Lock()
	defer e.out.Unlock()
	e.out.closed = true
	e.out.change.Broadcast()
	return nil
}

// SetWriteDeadline is called by tls.Conn when it sends the last alert.
func (e end) SetWriteDeadline(time.Time) error { return nil }

// shake does a handshake with a client at 10.1.2.3, and returns the errors of both ends.
// The client reads a byte, since in TLS 1.3 it hears of its refusal only then.
func shake(p *TLS, client *tls.Config) (errServer, errClient error) {
	near, far := connect()
	done := make(chan error, 1)
	go func() {
		c := tls.Server(far, p.Accept(&net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 4000}, nil))
		err := c.Handshake()
		p.Observe(err)
		if err == nil {
			_, err = c.Write([]byte{1})
		}
		far.Close()
		done <- err
	}()
	_, errClient = tls.Client(near, client).Read(make([]byte, 1))
	near.Close()
	return <-done, errClient
}

// clientOf is a client that trusts ca and shows the certificate of p.
func clientOf(ca *certs.Authority, p ...certs.Pair) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	c := &tls.Config{RootCAs: pool, ServerName: "zk1"}
	for _, pair := range p {
		c.Certificates = append(c.Certificates, pair.TLS())
	}
	// The client shows its certificate also to a server that does not list its authority.
	if len(p) > 0 {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.Certificates[0], nil }
	}
	return c
}

// TestAccept attacks a port in each way of which the handshake must fail. The class of the
// failure is what the metric shows.
func TestAccept(t *testing.T) {
	ca, other := certs.New(t, "CA"), certs.New(t, "other")
	app := ca.Issue("app", "10.1.2.3")
	auth := func(a ClientAuth) func(*Settings) { return func(s *Settings) { s.ClientAuth = a } }
	serverOnly := ca.Sign(&x509.Certificate{Subject: pkix.Name{CommonName: "zk2"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	expired := ca.Sign(&x509.Certificate{NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(-time.Hour)})
	early := ca.Sign(&x509.Certificate{NotBefore: time.Now().Add(time.Hour), NotAfter: time.Now().Add(2 * time.Hour)})
	with := func(c *tls.Config, change func(*tls.Config)) *tls.Config { change(c); return c }
	host := func(s *Settings) { s.VerifyClientHost = true }
	for _, test := range []struct {
		name   string
		change func(*Settings)
		client *tls.Config
		want   string // the class, "" for success
	}{
		{"good", nil, clientOf(ca, app), ""},
		{"no certificate", nil, clientOf(ca), "no_certificate"},
		{"no certificate, wanted", auth(WantClientAuth), clientOf(ca), ""},
		{"no certificate, not asked for", auth(NoClientAuth), clientOf(ca), ""},
		{"another authority", nil, clientOf(ca, other.Issue("app")), "unknown_authority"},
		{"another authority, wanted", auth(WantClientAuth), clientOf(ca, other.Issue("app")), "unknown_authority"},
		{"another authority, not asked for", auth(NoClientAuth), clientOf(ca, other.Issue("app")), ""},
		{"the authority's name forged", nil, clientOf(ca, certs.New(t, "CA").Issue("app")), "unknown_authority"},
		{"expired", nil, clientOf(ca, expired), "expired"},
		{"not valid yet", nil, clientOf(ca, early), "expired"},
		{"for servers only", nil, clientOf(ca, serverOnly), "bad_certificate"},
		{"for its address", host, clientOf(ca, app), ""},
		{"for another address", host, clientOf(ca, ca.Issue("app", "10.9.9.9")), "host"},
		{"TLS 1.1", nil, with(clientOf(ca, app), func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }), "version"},
		{"TLS 1.2 where 1.3 is needed", func(s *Settings) { s.MinVersion = tls.VersionTLS13 },
			with(clientOf(ca, app), func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), "version"},
		{"TLS 1.3 where 1.2 is needed", func(s *Settings) { s.MaxVersion = tls.VersionTLS12 },
			with(clientOf(ca, app), func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }), "version"},
		{"another cipher suite", func(s *Settings) { s.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384} },
			with(clientOf(ca, app), func(c *tls.Config) {
				c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
			}), "cipher_suite"},
		{"the client does not trust the server", nil, clientOf(other, app), "refused_by_client"},
		{"the client wants another host", nil, with(clientOf(ca, app), func(c *tls.Config) { c.ServerName = "zk2" }), "refused_by_client"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, _ := newTLS(t, ca, test.change)
			errServer, errClient := shake(p, test.client)
			if (errServer == nil) != (test.want == "") || (errClient == nil) != (test.want == "") {
				t.Fatalf("server: %v, client: %v; want %q", errServer, errClient, test.want)
			}
			if errServer != nil && Reason(errServer) != test.want {
				t.Errorf("%q is of class %s, want %s", errServer, Reason(errServer), test.want)
			}
		})
	}
}

// names is a resolver with fixed names.
type names map[string]string

func (n names) LookupAddr(_ context.Context, addr string) ([]string, error) {
	if name, ok := n[addr]; ok {
		return []string{name}, nil
	}
	return nil, errors.New("no such address")
}

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if addr, ok := n[host]; ok {
		return []netip.Addr{netip.MustParseAddr(addr)}, nil
	}
	return nil, errors.New("no such host")
}

// TestReverseLookup has clients whose certificates have the name of their address, and an
// address whose owner gives it the name of another machine.
func TestReverseLookup(t *testing.T) {
	ca := certs.New(t, "CA")
	for _, test := range []struct {
		name     string
		resolver names
		reverse  bool
		ok       bool
	}{
		{"name of the address", names{"10.1.2.3": "app.", "app.": "10.1.2.3"}, true, true},
		{"lookups not allowed", names{"10.1.2.3": "app.", "app.": "10.1.2.3"}, false, false},
		{"another name", names{"10.1.2.3": "web.", "web.": "10.1.2.3"}, true, false},
		{"name of another machine", names{"10.1.2.3": "app.", "app.": "10.9.9.9"}, true, false},
		{"no name", names{}, true, false},
	} {
		p, _ := newTLS(t, ca, func(s *Settings) { s.VerifyClientHost, s.ReverseDNS = true, test.reverse })
		p.resolver = test.resolver
		if err, _ := shake(p, clientOf(ca, ca.Issue("app"))); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// TestNoResumption connects twice with one session cache.
func TestNoResumption(t *testing.T) {
	ca := certs.New(t, "CA")
	p, _ := newTLS(t, ca, nil)
	client := clientOf(ca, ca.Issue("app"))
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	resumed := 0
	client.VerifyConnection = func(s tls.ConnectionState) error {
		if s.DidResume {
			resumed++
		}
		return nil
	}
	for range 2 {
		if errServer, errClient := shake(p, client); errServer != nil || errClient != nil {
			t.Fatal(errServer, errClient)
		}
	}
	if resumed != 0 {
		t.Error("a session was resumed")
	}
}

// TestStapledHandshake has a client whose certificate names no responder, and that sends an
// answer about it. In TLS 1.2 there is no place for that.
func TestStapledHandshake(t *testing.T) {
	ca := certs.New(t, "CA")
	p, _ := newTLS(t, ca, func(s *Settings) { s.OCSP = true })
	app := ca.Issue("app")
	answer, err := ocsp.CreateResponse(ca.Cert, ca.Cert, ocsp.Response{
		Status: ocsp.Good, SerialNumber: app.Cert.SerialNumber, ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour),
	}, ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		staple  []byte
		version uint16
		good    bool
	}{{answer, tls.VersionTLS13, true}, {nil, tls.VersionTLS13, false}, {answer, tls.VersionTLS12, false}} {
		client := clientOf(ca, app)
		client.Certificates[0].OCSPStaple, client.MaxVersion = test.staple, test.version
		if errServer, _ := shake(p, client); (errServer == nil) != test.good || !test.good && Reason(errServer) != "revocation_unknown" {
			t.Errorf("%s, a staple of %d bytes: %v", tls.VersionName(test.version), len(test.staple), errServer)
		}
	}
}

// TestChangedFiles changes the authority of a port.
func TestChangedFiles(t *testing.T) {
	ca, next := certs.New(t, "CA"), certs.New(t, "next one")
	p, logged := newTLS(t, ca, nil)
	trusted := func(a *certs.Authority) bool {
		err, _ := shake(p, clientOf(ca, a.Issue("app")))
		return err == nil
	}
	if !trusted(ca) || trusted(next) {
		t.Fatal("the wrong authority is trusted at first")
	}
	certs.Write(t, "", p.Trust.File, []byte("half writ"))
	if !trusted(ca) || trusted(next) || logged.FilterMessageSnippet("can't be used").Len() != 1 {
		t.Errorf("with a broken file: %v", logged.All())
	}
	certs.Write(t, "", p.Trust.File, next.CertPEM())
	if trusted(ca) || !trusted(next) || logged.FilterMessageSnippet("read the TLS files again").Len() != 1 {
		t.Errorf("with a new file: %v", logged.All())
	}
}

// TestTick warns of certificates that expire soon, once a day and after a change.
func TestTick(t *testing.T) {
	ca := certs.New(t, "CA")
	soon := ca.Sign(&x509.Certificate{Subject: pkix.Name{CommonName: "zk1"}, NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(29 * 24 * time.Hour)})
	p, logged := newTLS(t, ca, nil)
	p.Tick()
	if n := logged.Len(); n != 0 {
		t.Fatalf("log: %v", logged.All())
	}
	certs.Write(t, "", p.Key.File, soon.PEM(t))
	p.Tick()
	p.Tick()
	if n := logged.FilterMessageSnippet("expires soon").Len(); n != 1 {
		t.Errorf("%d warnings: %v", n, logged.All())
	}
	p.expiry.checked = p.expiry.checked.Add(-expiryRepeat)
	p.Tick()
	if n := logged.FilterMessageSnippet("expires soon").Len(); n != 2 {
		t.Errorf("%d warnings after a day: %v", n, logged.All())
	}
}

// TestExpiring has a chain whose middle expires first, and a revocation list that is out of date soon: both are found, and
// the list only if it is asked.
func TestExpiring(t *testing.T) {
	ca := certs.New(t, "CA")
	below := certs.NewBelow(t, ca, "CA 2")
	about := *below.Cert
	about.NotAfter = time.Now().Add(10 * 24 * time.Hour).Truncate(time.Second)
	middle, err := x509.CreateCertificate(rand.Reader, &about, ca.Cert, below.Key.Public(), ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	for _, asks := range []bool{true, false} {
		p, logged := newTLS(t, ca, func(s *Settings) {
			dir := filepath.Dir(s.Key.File)
			certs.Write(t, "", s.Key.File, append(below.Issue("zk1").PEM(t), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: middle})...))
			s.CRL, s.CRLs = asks, []string{certs.Write(t, dir, "crl.pem", ca.Revoke(until))}
		})
		if got := p.Expiry(); !got.Equal(about.NotAfter) {
			t.Errorf("the first certificate expires at %v, want %v", got, about.NotAfter)
		}
		want, lines := until, 2
		if !asks {
			want, lines = time.Time{}, 1
		}
		if got := p.ListExpiry(); !got.Equal(want) {
			t.Errorf("lists are asked %v: the first is out of date at %v, want %v", asks, got, want)
		}
		p.Tick()
		if n := logged.FilterMessageSnippet("expires soon").Len(); n != lines {
			t.Errorf("lists are asked %v: %d warnings, want %d: %v", asks, n, lines, logged.All())
		}
	}
}

// TestMetrics has an authority that is listed twice.
func TestMetrics(t *testing.T) {
	ca := certs.New(t, "CA")
	p, _ := newTLS(t, ca, nil)
	certs.Write(t, "", p.Trust.File, bytes.Repeat(ca.CertPEM(), 2))
	p.Observe(nil)
	p.Observe(ErrPlain)
	p.Observe(ErrPlain)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(p)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	expiry := func(of, subject string, c *x509.Certificate) string {
		return "zkd_tls_certificate_not_after_seconds of=" + of + " port=client serial=" + c.SerialNumber.Text(16) + " subject=CN=" + subject
	}
	want := map[string]float64{
		"zkd_tls_handshakes_total port=client result=ok":          1,
		"zkd_tls_handshakes_total port=client result=plain":       2,
		"zkd_tls_reload_failures_total port=client":               0,
		"zkd_tls_reload_failing port=client":                      0,
		expiry("authority", "CA", ca.Cert):                        float64(ca.Cert.NotAfter.Unix()),
		expiry("server", "zk1", p.source.Contents().Keys[0].Leaf): float64(p.source.Contents().Keys[0].Leaf.NotAfter.Unix()),
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestVerifyHost has certificates with and without alternative names.
func TestVerifyHost(t *testing.T) {
	ca := certs.New(t, "CA")
	cn := func(name string) *x509.Certificate {
		return ca.Sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}}).Cert
	}
	for _, test := range []struct {
		cert *x509.Certificate
		host string
		want bool
	}{
		{ca.Issue("zk1", "10.0.0.1").Cert, "zk1", true},
		{ca.Issue("zk1", "10.0.0.1").Cert, "10.0.0.1", true},
		{ca.Issue("zk1", "10.0.0.1").Cert, "zk2", false},
		{cn("zk1"), "zk1", true},
		{cn("zk1"), "ZK1", true},
		{cn("zk1"), "zk2", false},
		{cn("zk1"), "10.0.0.1", false},
		{cn("10.0.0.1"), "10.0.0.1", true},
		{cn("10.0.0.1"), "10.0.0.2", false},
		{cn("*.example.com"), "zk1.example.com", true},
		{cn("*.example.com"), "zk1.dc.example.com", false},
		{cn(""), "zk1", false},
		{ca.Sign(&x509.Certificate{Subject: pkix.Name{CommonName: "zk1"}, DNSNames: []string{"zk2"}}).Cert, "zk1", false},
	} {
		if err := VerifyHost(test.cert, test.host); (err == nil) != test.want {
			t.Errorf("%s, %v: %v", test.host, test.cert.Subject, err)
		}
	}
}
