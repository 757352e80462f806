package transport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
)

// loadCertificate reads a chain of certificates, the server's own first, and its
// private key, which may be in the same file.
func loadCertificate(certFile, keyFile, password string) (tls.Certificate, error) {
	certs, err := readPEM(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM, err := readPEM(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := privateKey(keyPEM, password)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read the private key in %s: %w", keyFile, err)
	}
	cert, err := tls.X509KeyPair(certs, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read the certificate in %s: %w", certFile, err)
	}
	return cert, nil
}

// loadTrust reads the certificates of the authorities.
func loadTrust(name string) (*x509.CertPool, error) {
	b, err := readPEM(name)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("read %s: no certificate in it", name)
	}
	return pool, nil
}

// readPEM reads a file and sees that it is PEM. Otherwise the error says how to
// make it so.
func readPEM(name string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	pemName := strings.TrimSuffix(name, ".jks") + ".pem"
	fromPKCS12 := "openssl pkcs12 -in %s -out " + pemName + " -nodes"
	switch {
	case bytes.Contains(b, []byte("-----BEGIN ")):
		return b, nil
	case bytes.HasPrefix(b, []byte{0xfe, 0xed, 0xfe, 0xed}), bytes.HasPrefix(b, []byte{0xce, 0xce, 0xce, 0xce}):
		return nil, fmt.Errorf("%s is a Java key store, and PEM is needed; convert it with: "+
			"keytool -importkeystore -srckeystore %s -destkeystore %s.p12 -deststoretype PKCS12 && "+fromPKCS12, name, name, name, name+".p12")
	case bytes.HasPrefix(b, []byte{0x30}):
		return nil, fmt.Errorf("%s looks like PKCS#12, and PEM is needed; convert it with: "+fromPKCS12, name, name)
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
			return nil, errors.New("it is encrypted, and there is no password: see ssl.quorum.keyStore.password")
		}
		der, err := decryptPKCS8(block.Bytes, password)
		if err != nil {
			return nil, err
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
	}
}
