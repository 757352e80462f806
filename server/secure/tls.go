package secure

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/keystore"
)

// TLS is the TLS of a port.
type TLS struct {
	Settings
	port       string // "client" or "quorum"
	log        *zap.Logger
	source     *keystore.Source
	revocation revocation
	staple     staple
	accept     atomic.Pointer[acceptConfig]
	handshakes counters
	resolver   resolver

	expiry struct {
		sync.Mutex
		checked time.Time          // when the last warnings were considered
		of      *keystore.Contents // whose expiry was considered
	}
}

// resolver is the part of net.Resolver that is used here.
type resolver interface {
	LookupAddr(ctx context.Context, addr string) ([]string, error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// acceptConfig is the configuration of a server for some contents of the files.
type acceptConfig struct {
	of     *keystore.Contents
	keys   []*tls.Certificate
	config *tls.Config
}

// New reads the files of s. The name of the port, "client" or "quorum", is for metrics and
// for the log.
func New(s Settings, port string, log *zap.Logger) (*TLS, error) {
	t := &TLS{Settings: s, port: port, log: log, resolver: net.DefaultResolver}
	t.MinVersion = cmp.Or(s.MinVersion, tls.VersionTLS12)
	t.revocation.init(s.CRL, s.OCSP)
	var err error
	t.source, err = keystore.Open(s.Files, t.changed)
	if err != nil {
		return nil, err
	}
	if t.Staple {
		c := t.source.Contents()
		if _, err := issuerOf(firstOf(c.KeysAt(time.Now())), c.Authorities); err != nil {
			return nil, fmt.Errorf("there can be no OCSP answer to staple: %w", err)
		}
	}
	return t, nil
}

func (t *TLS) changed(c *keystore.Contents, err error) {
	if err != nil {
		t.log.Error("the TLS files have changed and can't be used: staying with what they were", zap.String("port", t.port), zap.Error(err))
		return
	}
	fields := []zap.Field{zap.String("port", t.port)}
	for _, key := range c.KeysAt(time.Now()) {
		fields = append(fields, zap.Stringer("serial", key.Leaf.SerialNumber), zap.Time("until", key.Leaf.NotAfter))
		break
	}
	t.log.Info("read the TLS files again", fields...)
	for _, err := range c.Skipped {
		t.log.Warn("a part of the TLS files can't be used", zap.String("port", t.port), zap.Error(err))
	}
}

// base returns the settings that all roles share.
func (t *TLS) base(keys []*tls.Certificate) *tls.Config {
	config := &tls.Config{
		MinVersion:                  t.MinVersion,
		MaxVersion:                  t.MaxVersion,
		CipherSuites:                t.CipherSuites,
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
	}
	for _, key := range keys {
		config.Certificates = append(config.Certificates, *key)
	}
	return config
}

// Accept returns the configuration to accept a client from an address. onHello is called
// when the client's first message has been read, with the connection given to tls.Server;
// nil for nothing. It must be the same function in each call.
func (t *TLS) Accept(remote net.Addr, onHello func(net.Conn)) *tls.Config {
	c := t.source.Contents()
	keys := t.keys(c)
	if a := t.accept.Load(); a != nil && a.of == c && slices.Equal(a.keys, keys) {
		return t.forClient(a.config, remote)
	}
	config := t.base(keys)
	config.ClientAuth = t.ClientAuth.tls()
	config.ClientCAs = c.Pool
	config.VerifyConnection = func(s tls.ConnectionState) error { return t.revocation.check(s.VerifiedChains, c.CRLs, s.OCSPResponse) }
	if onHello != nil {
		config.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			onHello(h.Conn)
			return nil, nil
		}
	}
	t.accept.Store(&acceptConfig{c, keys, config})
	return t.forClient(config, remote)
}

// forClient adds the check of the client's address, if it is wanted.
func (t *TLS) forClient(config *tls.Config, remote net.Addr) *tls.Config {
	if !t.VerifyClientHost {
		return config
	}
	config = config.Clone()
	others := config.VerifyConnection
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return nil // ClientAuth allows that
		}
		if err := t.checkAddress(s.PeerCertificates[0], remote); err != nil {
			return err
		}
		return others(s)
	}
	return config
}

// lookupTimeout bounds the time to look up the names of an address.
const lookupTimeout = 5 * time.Second

// checkAddress checks that a certificate is for the address of its client.
func (t *TLS) checkAddress(leaf *x509.Certificate, remote net.Addr) error {
	at, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return fmt.Errorf("the address of the client, %s, is no IP address: %w", remote, err)
	}
	ip := at.Addr().Unmap().WithZone("")
	err = VerifyHost(leaf, ip.String())
	if err == nil || !t.ReverseDNS {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	names, errLookup := t.resolver.LookupAddr(ctx, ip.String())
	for _, name := range names {
		if VerifyHost(leaf, name) != nil {
			continue
		}
		// The owner of the address can give it any name.
		if ips, _ := t.resolver.LookupNetIP(ctx, "ip", name); slices.ContainsFunc(ips, func(a netip.Addr) bool { return a.Unmap() == ip }) {
			return nil
		}
	}
	return errors.Join(err, errLookup)
}

// Peer returns the configuration between servers, for both ends. A server that dials host
// checks that the certificate is for it; "" checks no host. The certificate of a server is
// good in either role, since servers act in both.
func (t *TLS) Peer(host string) *tls.Config {
	c := t.source.Contents()
	config := t.base(c.KeysAt(time.Now()))
	config.InsecureSkipVerify = true // verifyPeer does it
	config.ClientAuth = tls.RequireAnyClientCert
	config.ClientCAs = c.Pool
	config.VerifyConnection = func(s tls.ConnectionState) error { return t.verifyPeer(s, c, host) }
	return config
}

// Self returns the configuration to ask the server that has these files, on the same machine. It shows
// the server its own certificate, since it may want one, and does not check the server's: what answers at
// an address of this machine is believed without TLS, too, and the files may be newer than the server's.
func (t *TLS) Self() *tls.Config {
	keys := t.source.Contents().KeysAt(time.Now())
	config := t.base(keys)
	config.InsecureSkipVerify = true
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if len(keys) == 0 {
			return new(tls.Certificate), nil
		}
		return keys[0], nil
	}
	return config
}

// verifyPeer checks a server's chain, and its host if one is given.
func (t *TLS) verifyPeer(s tls.ConnectionState, c *keystore.Contents, host string) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the other side has no certificate")
	}
	o := x509.VerifyOptions{
		Roots: c.Pool, Intermediates: x509.NewCertPool(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}
	for _, cert := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(cert)
	}
	leaf := s.PeerCertificates[0]
	chains, err := leaf.Verify(o)
	if err != nil {
		return err
	}
	if host != "" {
		if err := VerifyHost(leaf, host); err != nil {
			return err
		}
	}
	return t.revocation.check(chains, c.CRLs, s.OCSPResponse)
}

// VerifyHost checks that a certificate is for a host, a name or an IP address. As in Apache's
// server, the common name counts if the certificate has no alternative names of hosts.
func VerifyHost(leaf *x509.Certificate, host string) error {
	if cn := leaf.Subject.CommonName; len(leaf.DNSNames) == 0 && len(leaf.IPAddresses) == 0 && cn != "" {
		named := *leaf
		if ip := net.ParseIP(cn); ip != nil {
			named.IPAddresses = []net.IP{ip}
		} else {
			named.DNSNames = []string{cn}
		}
		leaf = &named
	}
	return leaf.VerifyHostname(host)
}
