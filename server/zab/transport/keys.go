package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/pemfile"
	"github.com/zkd-project/zkd/server/zab"
)

// keys holds the contents of the TLS files. The files are checked before each handshake, so
// a renewed certificate needs no restart. If the new files can't be used, the previous
// contents stay in force.
type keys struct {
	TLS
	mode TLSMode
	log  *zap.Logger

	mu struct {
		sync.Mutex
		stamps []stamp
		loaded loaded
	}
}

// loaded is a certificate with its key and the trusted authorities.
type loaded struct {
	cert  tls.Certificate
	trust *x509.CertPool
}

// stamp is used to detect that a file has changed.
type stamp struct {
	mod  time.Time
	size int64
}

func newKeys(o TLS, log *zap.Logger) (*keys, error) {
	if o.CertFile == "" || o.TrustFile == "" {
		return nil, errors.New("transport: TLS between servers needs a certificate with its key, and whom to trust: " +
			"ssl.quorum.keyStore.location and ssl.quorum.trustStore.location")
	}
	if o.KeyFile == "" {
		o.KeyFile = o.CertFile
	}
	if o.MinVersion == 0 {
		o.MinVersion = tls.VersionTLS12
	}
	if o.IDName != "" && !strings.Contains(o.IDName, "{id}") {
		return nil, fmt.Errorf("transport: the name %q that ties certificates to ids has no {id} in it", o.IDName)
	}
	k := &keys{TLS: o, mode: o.Mode, log: log}
	k.mu.stamps = k.stamp()
	l, err := k.load()
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	k.mu.loaded = l
	return k, nil
}

func (k *keys) files() []string { return []string{k.CertFile, k.KeyFile, k.TrustFile} }

func (k *keys) stamp() []stamp {
	var list []stamp
	for _, name := range k.files() {
		var s stamp
		if info, err := os.Stat(name); err == nil {
			s = stamp{info.ModTime(), info.Size()}
		}
		list = append(list, s)
	}
	return list
}

func (k *keys) load() (l loaded, err error) {
	l.cert, err = pemfile.KeyPair(k.CertFile, k.KeyFile, k.KeyPassword)
	if errors.Is(err, pemfile.ErrNoPassword) {
		err = fmt.Errorf("%w: see ssl.quorum.keyStore.password", err)
	}
	if err != nil {
		return l, err
	}
	l.trust, err = pemfile.Pool(k.TrustFile)
	return l, err
}

// current returns the current contents of the files.
func (k *keys) current() loaded {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.stamp()
	if slices.Equal(now, k.mu.stamps) {
		return k.mu.loaded
	}
	k.mu.stamps = now
	l, err := k.load()
	if err != nil {
		k.log.Error("the TLS files of the ensemble have changed and can't be used: staying with what they were", zap.Error(err))
		return k.mu.loaded
	}
	k.mu.loaded = l
	k.log.Info("read the TLS files of the ensemble again", zap.Stringer("serial", l.cert.Leaf.SerialNumber), zap.Time("until", l.cert.Leaf.NotAfter))
	return l
}

// config returns the settings that both roles share. Only verify checks the chain: it
// accepts a certificate in either role, since servers act in both.
func (k *keys) config(host string) *tls.Config {
	l := k.current()
	return &tls.Config{
		Certificates:           []tls.Certificate{l.cert},
		MinVersion:             k.MinVersion,
		MaxVersion:             k.MaxVersion,
		CipherSuites:           k.CipherSuites,
		SessionTicketsDisabled: true, // a resumed session would outlive its certificate
		InsecureSkipVerify:     true, // see above
		ClientAuth:             tls.RequireAnyClientCert,
		VerifyConnection:       func(s tls.ConnectionState) error { return l.verify(s, host) },
	}
}

func (k *keys) server() *tls.Config { return k.config("") }

// client returns the configuration for dialing host.
func (k *keys) client(host string) *tls.Config {
	if !k.VerifyHost {
		host = ""
	}
	return k.config(host)
}

// verify checks the peer's chain, and its host if one is given.
func (l *loaded) verify(s tls.ConnectionState, host string) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the other side has no certificate")
	}
	o := x509.VerifyOptions{
		Roots: l.trust, Intermediates: x509.NewCertPool(), DNSName: host,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}
	for _, c := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(o)
	return err
}

// checkCertificate checks that the peer's certificate may be that of server id. Peers
// without TLS have been admitted by the mode.
func (t *Transport) checkCertificate(nc net.Conn, id zab.SID) error {
	c, ok := nc.(*tls.Conn)
	if !ok {
		return nil
	}
	leaf := c.ConnectionState().PeerCertificates[0]
	if name := t.keys.IDName; name != "" {
		name = strings.ReplaceAll(name, "{id}", strconv.Itoa(int(id)))
		if !isNamed(leaf, name) {
			return refuse("certificate", fmt.Sprintf("the certificate of server %d is for %s, not for %s", id, describe(leaf), name))
		}
	}
	p := t.active(id)
	if !t.keys.VerifyHost || p == nil {
		return nil
	}
	for _, addr := range p.configured() {
		if host, _, err := net.SplitHostPort(addr); err == nil && leaf.VerifyHostname(host) == nil {
			return nil
		}
	}
	return refuse("certificate", fmt.Sprintf("the certificate of server %d is for %s, which is none of its hosts in the configuration", id, describe(leaf)))
}

func isNamed(leaf *x509.Certificate, name string) bool {
	return strings.EqualFold(leaf.Subject.CommonName, name) ||
		slices.ContainsFunc(leaf.DNSNames, func(n string) bool { return strings.EqualFold(n, name) })
}

// describe returns the subject of a certificate.
func describe(leaf *x509.Certificate) string {
	names := append([]string{leaf.Subject.String()}, leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return printable(strings.Join(names, ", "))
}
