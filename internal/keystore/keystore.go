package keystore

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/internal/secret"
)

// Store is a file with a private key, or with certificates of authorities.
type Store struct {
	// File is the name of the file, "" for none.
	File string
	// KeyFile is the PEM file with the private key, if that is not in File.
	KeyFile string
	// Password decrypts the key, and proves that a JKS or PKCS #12 file is intact.
	Password secret.Text
	// PasswordFile is the file with the password, in place of Password. A line end after the
	// password does not count.
	PasswordFile string
}

// ErrNoPassword means that a file or its private key is encrypted and there is no password.
var ErrNoPassword = errors.New("it is encrypted, and there is no password")

var errWrongPassword = errors.New("the password is wrong, or the file is damaged")

// maxFileSize bounds the size of a file, in bytes. The authorities of an operating system
// take a quarter of a mebibyte.
const maxFileSize = 4 << 20

// contents are the private keys and the certificates of a file.
type contents struct {
	keys    []keyEntry
	trusted []*x509.Certificate // certificates on their own
}

// keyEntry is a private key with the certificates beside it. In a PEM or PKCS #12 file,
// the certificates may be in any order.
type keyEntry struct {
	key   crypto.Signer
	certs []*x509.Certificate
}

// ReadKey reads the private key and the chain of its certificate. It reads files with read,
// which may be os.ReadFile.
func (s Store) ReadKey(read func(name string) ([]byte, error)) (*tls.Certificate, error) {
	c, err := s.decode(read)
	if err != nil {
		return nil, err
	}
	name := s.File
	if s.KeyFile != "" && s.KeyFile != s.File {
		name = s.KeyFile
	}
	switch len(c.keys) {
	case 0:
		return nil, fmt.Errorf("read the private key in %s: there is none", name)
	case 1:
	default:
		return nil, fmt.Errorf("read the private key in %s: there are %d; keep one (of a Java key store: keytool -delete -alias)", name, len(c.keys))
	}
	cert, err := c.keys[0].chain()
	if err != nil {
		if name != s.File {
			name = s.File + ", with the key in " + name
		}
		return nil, fmt.Errorf("read the certificate in %s: %w", name, err)
	}
	return cert, nil
}

// ReadTrust reads the certificates of authorities.
func (s Store) ReadTrust(read func(name string) ([]byte, error)) ([]*x509.Certificate, error) {
	s.KeyFile = ""
	c, err := s.decode(read)
	if err != nil {
		return nil, err
	}
	if len(c.trusted) == 0 {
		return nil, fmt.Errorf("read %s: there is no certificate of an authority in it", s.File)
	}
	return c.trusted, nil
}

func (s Store) decode(read func(name string) ([]byte, error)) (contents, error) {
	b, err := readFile(read, s.File)
	if err != nil {
		return contents{}, err
	}
	if s.KeyFile != "" && s.KeyFile != s.File {
		key, err := readFile(read, s.KeyFile)
		if err != nil {
			return contents{}, err
		}
		b = slices.Concat(key, []byte("\n"), b)
	}
	password := s.Password.Reveal()
	if s.PasswordFile != "" && (!isPEM(b) || bytes.Contains(b, []byte("-----BEGIN ENCRYPTED"))) {
		b, err := readFile(read, s.PasswordFile)
		if err != nil {
			return contents{}, fmt.Errorf("the password of %s: %w", s.File, err)
		}
		password = strings.TrimRight(string(b), "\r\n")
	}
	c, err := decode(b, password)
	if unknown, ok := errors.AsType[*formatError](err); ok {
		return c, unknown.of(s.File)
	}
	if err != nil {
		name := s.File
		if s.KeyFile != "" {
			name = s.KeyFile
		}
		return c, fmt.Errorf("read %s: %w", name, err)
	}
	return c, nil
}

// readFile reads a file of at most maxFileSize bytes.
func readFile(read func(name string) ([]byte, error), name string) ([]byte, error) {
	b, err := read(name)
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	if err == nil && len(b) > maxFileSize {
		err = fmt.Errorf("it has more than %d bytes: is it a file of keys or certificates?", maxFileSize)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// osRead reads a file of the operating system.
func osRead(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFileSize+1))
}

// decode decodes a file of any format.
func decode(b []byte, password string) (contents, error) {
	switch {
	case isPEM(b):
		return decodePEM(b, password)
	case bytes.HasPrefix(b, []byte{0xfe, 0xed, 0xfe, 0xed}):
		return decodeJKS(b, password)
	case isPKCS12(b):
		return decodePKCS12(b, password)
	}
	return contents{}, &formatError{b}
}

func isPEM(b []byte) bool { return bytes.Contains(b, []byte("-----BEGIN ")) }

// formatError means that a file has none of the formats that are read here.
type formatError struct{ content []byte }

func (e *formatError) Error() string { return "it has an unknown format" }

// of returns the error for the file, with a remedy.
func (e *formatError) of(name string) error {
	stem := strings.TrimSuffix(name, filepath.Ext(name))
	toPKCS12 := "convert it with: keytool -importkeystore -srckeystore " + name + " -destkeystore " + stem + ".p12 -deststoretype PKCS12"
	switch b := e.content; {
	case bytes.HasPrefix(b, []byte{0xce, 0xce, 0xce, 0xce}):
		return fmt.Errorf("%s is a key store of type JCEKS, and PEM, JKS or PKCS12 is needed; %s -srcstoretype JCEKS", name, toPKCS12)
	case isBCFKS(b):
		return fmt.Errorf("%s is a key store of type BCFKS, and PEM, JKS or PKCS12 is needed; %s -srcstoretype BCFKS "+
			"-providerclass org.bouncycastle.jcajce.provider.BouncyCastleFipsProvider -providerpath bc-fips.jar", name, toPKCS12)
	case bytes.HasPrefix(b, []byte{0x30}):
		return fmt.Errorf("%s looks like DER, and PEM, JKS or PKCS12 is needed; convert it with: openssl x509 -inform der -in %s -out %s.pem", name, name, stem)
	}
	return fmt.Errorf("%s is neither PEM (it has no BEGIN line) nor JKS nor PKCS12", name)
}

// chain returns the key with its own certificate, and the certificates that lead from it
// to an authority.
func (e keyEntry) chain() (*tls.Certificate, error) {
	type comparable interface{ Equal(crypto.PublicKey) bool }
	public, ok := e.key.Public().(comparable)
	if !ok {
		return nil, fmt.Errorf("keys of type %T are not supported", e.key)
	}
	if len(e.certs) == 0 {
		return nil, errors.New("there is none")
	}
	own := slices.IndexFunc(e.certs, func(c *x509.Certificate) bool { return public.Equal(c.PublicKey) })
	if own < 0 {
		return nil, errors.New("private key does not match public key of the certificate")
	}
	leaf, rest := e.certs[own], slices.Delete(slices.Clone(e.certs), own, own+1)
	cert := &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: e.key, Leaf: leaf}
	for last := leaf; ; {
		next := slices.IndexFunc(rest, func(c *x509.Certificate) bool {
			return bytes.Equal(c.RawSubject, last.RawIssuer) && !bytes.Equal(last.RawSubject, last.RawIssuer)
		})
		if next < 0 {
			return cert, nil
		}
		last = rest[next]
		rest = slices.Delete(rest, next, next+1)
		cert.Certificate = append(cert.Certificate, last.Raw)
	}
}

// signer returns a private key that TLS can use.
func signer(key any) (crypto.Signer, error) {
	s, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a private key of type %T can't sign", key)
	}
	return s, nil
}
