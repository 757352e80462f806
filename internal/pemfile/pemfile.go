package pemfile

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// ErrNoPassword means that a private key is encrypted and there is no password for it.
var ErrNoPassword = errors.New("it is encrypted, and there is no password")

// KeyPair reads a chain of certificates, the owner's own first, and its private key, which
// may be in the same file. The password is only used for an encrypted key.
func KeyPair(certFile, keyFile, password string) (tls.Certificate, error) {
	certs, err := read(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM, err := read(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := privateKey(keyPEM, password)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read the private key in %s: %w", keyFile, err)
	}
	cert, err := tls.X509KeyPair(certs, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read the certificate in %s, with the key in %s: %w", certFile, keyFile, err)
	}
	return cert, nil
}

// Pool reads the certificates of authorities.
func Pool(name string) (*x509.CertPool, error) {
	b, err := read(name)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("read %s: there is no certificate of an authority in it", name)
	}
	return pool, nil
}

// read reads a file and checks that it is PEM.
func read(name string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err
		}
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	pemName := strings.TrimSuffix(name, ".jks") + ".pem"
	fromPKCS12 := "openssl pkcs12 -in %s -out " + pemName + " -nodes"
	switch {
	case bytes.Contains(b, []byte("-----BEGIN ")):
		return b, nil
	case bytes.HasPrefix(b, []byte{0xfe, 0xed, 0xfe, 0xed}), bytes.HasPrefix(b, []byte{0xce, 0xce, 0xce, 0xce}):
		return nil, fmt.Errorf("%s is a Java key store, and PEM is needed; convert it with: "+
			"keytool -importkeystore -srckeystore %s -destkeystore %s -deststoretype PKCS12 && "+fromPKCS12, name, name, name+".p12", name+".p12")
	case bytes.HasPrefix(b, []byte{0x30}):
		return nil, fmt.Errorf("%s looks like PKCS #12 or DER, and PEM is needed; convert it with: "+fromPKCS12+
			", or: openssl x509 -inform der -in %s -out "+pemName, name, name, name)
	}
	return nil, fmt.Errorf("%s is not PEM: it has no BEGIN line", name)
}

// privateKey returns the first private key as PEM without encryption.
func privateKey(b []byte, password string) ([]byte, error) {
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			return nil, errors.New("there is none")
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		if block.Headers["DEK-Info"] != "" {
			return nil, errors.New("it is encrypted the old way, which is not secure; convert it with: openssl pkcs8 -topk8 -v2 aes256 -in old -out new")
		}
		if block.Type != "ENCRYPTED PRIVATE KEY" {
			return pem.EncodeToMemory(block), nil
		}
		if password == "" {
			return nil, ErrNoPassword
		}
		der, err := decryptPKCS8(block.Bytes, password)
		if err != nil {
			return nil, err
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
	}
}
