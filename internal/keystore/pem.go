package keystore

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// decodePEM decodes a file with certificates, and possibly the private key of one.
func decodePEM(b []byte, password string) (c contents, err error) {
	var key *pem.Block
	for n := 1; ; {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			break
		}
		switch {
		case strings.HasSuffix(block.Type, "PRIVATE KEY") && key == nil:
			key = block
		case block.Type == "CERTIFICATE" || block.Type == "TRUSTED CERTIFICATE":
			if cert := c.parse(block.Bytes, fmt.Sprintf("number %d", n)); cert != nil {
				c.trusted = append(c.trusted, cert)
			}
			n++
		}
	}
	if key != nil {
		c.keys = []keyEntry{{open: func() (crypto.Signer, error) { return privateKey(key, password) }, certs: c.trusted}}
	}
	return c, nil
}

// privateKey returns the private key in a block of a PEM file.
func privateKey(block *pem.Block, password string) (crypto.Signer, error) {
	der := block.Bytes
	if block.Headers["DEK-Info"] != "" {
		return nil, errors.New("its private key is encrypted the old way, which is not secure; convert it with: openssl pkcs8 -topk8 -v2 aes256 -in old -out new")
	}
	if block.Type == "ENCRYPTED PRIVATE KEY" {
		if password == "" {
			return nil, ErrNoPassword
		}
		var err error
		if der, err = decryptPKCS8(der, password); err != nil {
			return nil, err
		}
	}
	return parseKey(der)
}

// parseKey parses a private key in any of the encodings that tools write.
func parseKey(der []byte) (crypto.Signer, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		key, err = x509.ParsePKCS1PrivateKey(der)
	}
	if err != nil {
		key, err = x509.ParseECPrivateKey(der)
	}
	if err != nil {
		return nil, errors.New("the private key has an unknown type")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a private key of type %T can't sign", key)
	}
	return signer, nil
}

// parseCRLs returns the certificate revocation lists in a file, which is PEM or DER.
func parseCRLs(b []byte) (lists []*x509.RevocationList, err error) {
	if !isPEM(b) {
		list, err := x509.ParseRevocationList(b)
		if err != nil {
			return nil, err
		}
		return []*x509.RevocationList{list}, nil
	}
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			break
		}
		if block.Type != "X509 CRL" {
			continue
		}
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, err
		}
		lists = append(lists, list)
	}
	if len(lists) == 0 {
		return nil, errors.New("there is no revocation list in it")
	}
	return lists, nil
}
