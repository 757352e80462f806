package keystore

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/internal/smallfile"
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
	keys     []keyEntry
	trusted  []*x509.Certificate // those of authorities, and the keys' own
	unmarked int                 // how many others there are, which Java does not trust
	skipped  []error             // the certificates that can't be parsed
}

// keyEntry is a private key with the certificates beside it. In a PEM or PKCS #12 file,
// the certificates may be in any order.
type keyEntry struct {
	name  string                        // "" if the file has none
	open  func() (crypto.Signer, error) // decrypts the key
	certs []*x509.Certificate
}

// parse parses a certificate. It returns nil for one that can't be parsed: files of
// authorities often have one that nobody needs.
func (c *contents) parse(der []byte, name string) *x509.Certificate {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		c.skipped = append(c.skipped, fmt.Errorf("certificate%s is skipped, since it can't be parsed: %w", named(name), err))
		return nil
	}
	return cert
}

func named(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" %q", name)
}

// ReadKeys reads the private keys and the chains of their certificates. Keys and certificates
// that can't be used are skipped, with the reasons, if a key is left. It reads files with read,
// which may be os.ReadFile.
func (s Store) ReadKeys(read func(name string) ([]byte, error)) (keys []*tls.Certificate, skipped []error, err error) {
	c, err := s.decode(read)
	if err != nil {
		return nil, nil, err
	}
	if len(c.keys) == 0 {
		return nil, nil, fmt.Errorf("read the private key in %s: there is none", s.keyFile())
	}
	for _, e := range c.keys {
		key, errKey := s.readKey(e)
		if errKey == nil {
			keys = append(keys, key)
			continue
		}
		skipped = append(skipped, fmt.Errorf("key%s is skipped: %w", named(e.name), errKey))
		if err == nil {
			err = errKey
		}
	}
	if len(keys) == 0 {
		return nil, nil, errors.Join(append([]error{err}, s.in(c.skipped)...)...)
	}
	return keys, append(skipped, s.in(c.skipped)...), nil
}

// keyFile returns the name of the file with the private key.
func (s Store) keyFile() string { return cmp.Or(s.KeyFile, s.File) }

// in adds the name of the file to errors about what is in it.
func (s Store) in(errs []error) []error {
	list := make([]error, len(errs))
	for i, err := range errs {
		list[i] = fmt.Errorf("read %s: %w", s.File, err)
	}
	return list
}

func (s Store) readKey(e keyEntry) (*tls.Certificate, error) {
	key, err := e.open()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.keyFile(), err)
	}
	cert, err := chain(key, e.certs)
	if err != nil {
		name := s.File
		if s.keyFile() != s.File {
			name += ", with the key in " + s.KeyFile
		}
		return nil, fmt.Errorf("read the certificate in %s: %w", name, err)
	}
	return cert, nil
}

// ReadTrust reads the certificates of authorities. Those that can't be parsed are skipped, with
// the reasons, if one is left.
func (s Store) ReadTrust(read func(name string) ([]byte, error)) (trusted []*x509.Certificate, skipped []error, err error) {
	s.KeyFile = ""
	c, err := s.decode(read)
	switch {
	case err != nil:
		return nil, nil, err
	case len(c.trusted) > 0:
		return c.trusted, s.in(c.skipped), nil
	case c.unmarked > 0:
		err = fmt.Errorf("read %s: its certificates are not marked as trusted, so Java would not trust them either; make it with: keytool -importcert", s.File)
	default:
		err = fmt.Errorf("read %s: there is no certificate of an authority in it", s.File)
	}
	return nil, nil, errors.Join(append([]error{err}, s.in(c.skipped)...)...)
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
		return c, fmt.Errorf("read %s: %w", s.keyFile(), err)
	}
	return c, nil
}

// readFile reads a file.
func readFile(read func(name string) ([]byte, error), name string) ([]byte, error) {
	b, err := read(name)
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// osRead reads a file of the operating system.
func osRead(name string) ([]byte, error) {
	return smallfile.Read(name, maxFileSize, "a file of keys or certificates")
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

// chain returns a key with its own certificate, and the certificates that lead from it
// to an authority. certs have them, in any order, and maybe others.
func chain(key crypto.Signer, certs []*x509.Certificate) (*tls.Certificate, error) {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return nil, fmt.Errorf("keys of type %T are not supported", key)
	}
	if len(certs) == 0 {
		return nil, errors.New("there is none")
	}
	var leaf *x509.Certificate
	for _, c := range certs {
		if public.Equal(c.PublicKey) && (leaf == nil || c.NotAfter.After(leaf.NotAfter)) {
			leaf = c
		}
	}
	if leaf == nil {
		return nil, errors.New("private key does not match public key of the certificate")
	}
	cert := &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
	for last, left := leaf, len(certs); left > 1; left-- { // certificates of two authorities may lead to each other
		if last = issuer(last, certs); last == nil {
			break
		}
		cert.Certificate = append(cert.Certificate, last.Raw)
	}
	return cert, nil
}

// issuer returns the certificate in certs whose key signed cert: of several the one that
// expires last. It returns nil if there is none, or cert is its own.
func issuer(cert *x509.Certificate, certs []*x509.Certificate) (best *x509.Certificate) {
	if bytes.Equal(cert.RawSubject, cert.RawIssuer) {
		return nil
	}
	for _, c := range certs {
		if bytes.Equal(c.RawSubject, cert.RawIssuer) && signed(c, cert) && (best == nil || c.NotAfter.After(best.NotAfter)) {
			best = c
		}
	}
	return best
}

// signed reports whether the key of parent signed cert. What a signature of an algorithm says
// that is no longer secure is not known: then the key identifiers decide, if both have one.
func signed(parent, cert *x509.Certificate) bool {
	err := parent.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature)
	if _, insecure := errors.AsType[x509.InsecureAlgorithmError](err); insecure || errors.Is(err, x509.ErrUnsupportedAlgorithm) {
		return len(parent.SubjectKeyId) == 0 || len(cert.AuthorityKeyId) == 0 || bytes.Equal(parent.SubjectKeyId, cert.AuthorityKeyId)
	}
	return err == nil
}
