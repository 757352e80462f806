package keystore

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"

	"software.sslmate.com/src/go-pkcs12"
)

// derBody returns the contents of the DER sequence that b begins with, without checking
// its length.
func derBody(b []byte) []byte {
	if len(b) < 2 || b[0] != 0x30 {
		return nil
	}
	if b[1] >= 0x80 {
		return b[min(len(b), 2+int(b[1]&0x7f)):]
	}
	return b[2:]
}

// isPKCS12 reports whether b begins like a PKCS #12 file: a sequence of which the first
// element is the version, 3.
func isPKCS12(b []byte) bool {
	body := derBody(b)
	return len(body) >= 3 && body[0] == 2 && body[1] == 1 && body[2] == 3
}

// pbes2 is the DER of oidPBES2, with which Bouncy Castle's stores are encrypted.
var pbes2 = []byte{0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d}

// isBCFKS reports whether b begins like a key store of Bouncy Castle's FIPS provider: its
// first element is an encrypted object, which begins with its algorithm.
func isBCFKS(b []byte) bool {
	algorithm := derBody(derBody(derBody(b)))
	return bytes.HasPrefix(algorithm, pbes2)
}

func decodePKCS12(b []byte, password string) (c contents, err error) {
	if err := checkIterations(b); err != nil {
		return c, err
	}
	key, own, others, err := pkcs12.DecodeChain(b, password)
	if err == nil {
		e := keyEntry{certs: append([]*x509.Certificate{own}, others...)}
		if e.key, err = signer(key); err != nil {
			return c, err
		}
		return contents{keys: []keyEntry{e}, trusted: e.certs[:1]}, nil
	}
	trusted, errTrust := pkcs12.DecodeTrustStore(b, password)
	switch {
	case errTrust == nil:
		return contents{trusted: trusted}, nil
	case errors.Is(err, pkcs12.ErrIncorrectPassword) && password == "":
		return c, ErrNoPassword
	case errors.Is(err, pkcs12.ErrIncorrectPassword):
		return c, errWrongPassword
	case errTrust.Error() == "pkcs12: trust store contains a certificate that is not marked as trusted":
		return c, errors.New("its certificates are not marked as trusted, so Java would not trust them either; make it with: keytool -importcert")
	}
	return c, err
}

// checkIterations rejects a file that would take very long to check the password of.
func checkIterations(b []byte) error {
	var file struct {
		Version  int
		AuthSafe asn1.RawValue
		Mac      struct {
			Digest struct {
				Algorithm pkix.AlgorithmIdentifier
				Sum       []byte
			}
			Salt       []byte
			Iterations int `asn1:"optional,default:1"`
		} `asn1:"optional"`
	}
	if _, err := asn1.Unmarshal(b, &file); err != nil {
		return fmt.Errorf("decode PKCS #12: %w", err)
	}
	iterations := file.Mac.Iterations
	var mac struct{ KDF, Scheme pkix.AlgorithmIdentifier }
	var kdf pbkdf2Params
	if _, err := asn1.Unmarshal(file.Mac.Digest.Algorithm.Parameters.FullBytes, &mac); err == nil {
		if _, err := asn1.Unmarshal(mac.KDF.Parameters.FullBytes, &kdf); err == nil {
			iterations = max(iterations, kdf.Iterations)
		}
	}
	if iterations > mostIterations {
		return fmt.Errorf("%d iterations to check the password are too many", iterations)
	}
	return nil
}
