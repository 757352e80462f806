// Package certs makes authorities and certificates for tests. Certificates are valid from the
// first day of 1970, so also in a synctest bubble.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	Pair
	t    testing.TB
	next int64 // serial number
}

// Pair is a certificate with its key.
type Pair struct {
	Cert *x509.Certificate
	Key  crypto.Signer
}

// New makes an authority.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	return &Authority{t: t, Pair: SelfSigned(t, about(name))}
}

// NewBelow makes an authority whose certificate another one signs.
func NewBelow(t testing.TB, parent *Authority, name string) *Authority {
	t.Helper()
	return &Authority{t: t, Pair: parent.Sign(about(name))}
}

func about(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, SubjectKeyId: []byte(name),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

// SelfSigned makes a certificate that signs itself. See Sign.
func SelfSigned(t testing.TB, about *x509.Certificate) Pair {
	t.Helper()
	return (&Authority{t: t}).Sign(about)
}

// Sign completes a certificate with what it lacks, and signs it. Without another time, it
// is valid for a hundred years from now.
func (a *Authority) Sign(about *x509.Certificate) Pair {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.next++
	about.SerialNumber = big.NewInt(a.next)
	if about.NotAfter.IsZero() {
		about.NotBefore, about.NotAfter = time.Unix(0, 0), time.Now().AddDate(100, 0, 0)
	}
	if about.KeyUsage == 0 {
		about.KeyUsage = x509.KeyUsageDigitalSignature
	}
	parent, signer := a.Cert, a.Key
	if parent == nil {
		parent, signer = about, crypto.Signer(key)
	}
	der, err := x509.CreateCertificate(rand.Reader, about, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return Pair{cert, key}
}

// Issue signs a certificate for both ends of a connection, with DNS names and IP addresses.
// The first name is also that of the subject.
func (a *Authority) Issue(names ...string) Pair {
	a.t.Helper()
	about := &x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			about.IPAddresses = append(about.IPAddresses, ip)
		} else {
			about.DNSNames = append(about.DNSNames, name)
		}
	}
	return a.Sign(about)
}

// Revoke returns a revocation list in PEM, which is valid until then.
func (a *Authority) Revoke(until time.Time, certs ...*x509.Certificate) []byte {
	a.t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Unix(0, 0), NextUpdate: until}
	for _, c := range certs {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: time.Unix(0, 0)})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.Cert, a.Key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

// TLS returns the pair for crypto/tls.
func (p Pair) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{p.Cert.Raw}, PrivateKey: p.Key, Leaf: p.Cert}
}

// PEM returns the key and the certificate.
func (p Pair) PEM(t testing.TB) []byte {
	t.Helper()
	return append(p.KeyPEM(t), p.CertPEM()...)
}

// KeyPEM returns the key alone.
func (p Pair) KeyPEM(t testing.TB) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// CertPEM returns the certificate alone.
func (p Pair) CertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Cert.Raw})
}

// Write writes a file into a directory and returns its name.
func Write(t testing.TB, dir, name string, content []byte) string {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
