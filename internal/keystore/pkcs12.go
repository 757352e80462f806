package keystore

import (
	"bytes"
	"crypto"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
	"slices"
	"unicode/utf16"
)

// A PKCS #12 file, RFC 7292, as openssl, Java and Bouncy Castle write it:
//
//	pfx             version 3; its contents; a MAC of these by the password
//	  contentInfo   each a list of bags, plain or encrypted
//	    safeBag     a key, a certificate, or what is not read here; with attributes
//
// The attribute localKeyID connects a key with its own certificate. Java marks a certificate
// that it trusts with an attribute of its own. A file may have several keys, and trusted
// certificates beside them.
type pfx struct {
	Version  int
	Contents contentInfo
	MAC      macData `asn1:"optional"`
}

type contentInfo struct {
	Type    asn1.ObjectIdentifier
	Content asn1.RawValue `asn1:"tag:0,explicit,optional"`
}

type macData struct {
	Digest struct {
		Algorithm pkix.AlgorithmIdentifier
		Sum       []byte
	}
	Salt       []byte
	Iterations int `asn1:"optional,default:1"`
}

type encryptedData struct {
	Version int
	Info    struct {
		Type      asn1.ObjectIdentifier
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte `asn1:"tag:0"`
	}
}

type safeBag struct {
	Type       asn1.ObjectIdentifier
	Value      asn1.RawValue  `asn1:"tag:0,explicit"`
	Attributes []bagAttribute `asn1:"set,optional"`
}

type bagAttribute struct {
	Type   asn1.ObjectIdentifier
	Values asn1.RawValue `asn1:"set"`
}

type certBag struct {
	Type asn1.ObjectIdentifier
	DER  []byte `asn1:"tag:0,explicit"`
}

var (
	oidData          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidEncryptedData = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 6}
	oidKeyBag        = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 1}
	oidShroudedKey   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 2}
	oidCertBag       = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 3}
	oidX509Cert      = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 22, 1}
	oidFriendlyName  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 20}
	oidLocalKeyID    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 21}
	oidJavaTrusted   = asn1.ObjectIdentifier{2, 16, 840, 1, 113894, 746875, 1, 1}
	oidPBMAC1        = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 14}
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

// decodePKCS12 decodes a PKCS #12 file. As in Java, a file whose certificates are not
// encrypted gives them without its password, and one without a MAC needs none.
func decodePKCS12(b []byte, password string) (c contents, err error) {
	var file pfx
	if rest, err := asn1.Unmarshal(b, &file); err != nil || len(rest) > 0 {
		return c, fmt.Errorf("decode PKCS #12: %w", errors.Join(err, surplus(rest)))
	}
	body, err := octets(file.Contents)
	if err != nil {
		return c, err
	}
	switch intact, err := file.MAC.verify(body, password); {
	case err != nil:
		return c, err
	case !intact && password != "":
		return c, errWrongPassword
	}
	var infos []contentInfo
	if _, err := asn1.Unmarshal(body, &infos); err != nil {
		return c, fmt.Errorf("decode PKCS #12: %w", err)
	}
	var bags []safeBag
	for _, info := range infos {
		list, err := info.bags(password)
		if err != nil {
			return c, err
		}
		bags = append(bags, list...)
	}
	return sortBags(bags, password)
}

// surplus is an error if there are bytes after a value.
func surplus(rest []byte) error {
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes follow it", len(rest))
	}
	return nil
}

// octets returns the contents of a contentInfo that is not encrypted.
func octets(info contentInfo) (b []byte, err error) {
	if !info.Type.Equal(oidData) {
		return nil, errors.New("only PKCS #12 files that are protected by a password can be read")
	}
	if _, err := asn1.Unmarshal(info.Content.Bytes, &b); err != nil {
		return nil, fmt.Errorf("decode PKCS #12: %w", err)
	}
	return b, nil
}

func (info contentInfo) bags(password string) (bags []safeBag, err error) {
	var b []byte
	if info.Type.Equal(oidEncryptedData) {
		var e encryptedData
		if _, err = asn1.Unmarshal(info.Content.Bytes, &e); err == nil {
			b, err = decrypt(e.Info.Algorithm, e.Info.Data, password)
		}
	} else {
		b, err = octets(info)
	}
	if err != nil {
		return nil, err
	}
	if _, err := asn1.Unmarshal(b, &bags); err != nil {
		return nil, fmt.Errorf("decode PKCS #12: %w", err)
	}
	return bags, nil
}

// sortBags returns the keys, each with all certificates of the file, and the certificates
// that Java trusts: those marked so, and the keys' own.
func sortBags(bags []safeBag, password string) (c contents, err error) {
	var certs []*x509.Certificate
	var own [][]byte // localKeyID of the keys
	for _, bag := range bags {
		if bag.Type.Equal(oidKeyBag) || bag.Type.Equal(oidShroudedKey) {
			c.keys = append(c.keys, keyEntry{name: bag.name(), open: func() (crypto.Signer, error) { return bag.key(password) }})
			own = append(own, bag.attribute(oidLocalKeyID))
		}
	}
	for _, bag := range bags {
		if !bag.Type.Equal(oidCertBag) {
			continue
		}
		var cb certBag
		if _, err := asn1.Unmarshal(bag.Value.Bytes, &cb); err != nil {
			return contents{}, fmt.Errorf("decode PKCS #12: %w", err)
		}
		if !cb.Type.Equal(oidX509Cert) {
			continue
		}
		cert := c.parse(cb.DER, bag.name())
		if cert == nil {
			continue
		}
		certs = append(certs, cert)
		id := bag.attribute(oidLocalKeyID)
		if bag.attribute(oidJavaTrusted) != nil || id != nil && slices.ContainsFunc(own, func(key []byte) bool { return bytes.Equal(key, id) }) {
			c.trusted = append(c.trusted, cert)
		} else {
			c.unmarked++
		}
	}
	for i := range c.keys {
		c.keys[i].certs = certs
	}
	return c, nil
}

// attribute returns the values of an attribute, in DER; nil if the bag does not have it.
func (bag *safeBag) attribute(id asn1.ObjectIdentifier) []byte {
	for _, a := range bag.Attributes {
		if a.Type.Equal(id) {
			return a.Values.FullBytes
		}
	}
	return nil
}

// name returns the name that tools show for a bag, "" if it has none.
func (bag *safeBag) name() string {
	var set, text asn1.RawValue
	if _, err := asn1.Unmarshal(bag.attribute(oidFriendlyName), &set); err != nil {
		return ""
	}
	if _, err := asn1.Unmarshal(set.Bytes, &text); err != nil {
		return ""
	}
	units := make([]uint16, len(text.Bytes)/2)
	for i := range units {
		units[i] = uint16(text.Bytes[2*i])<<8 | uint16(text.Bytes[2*i+1])
	}
	return string(utf16.Decode(units))
}

func (bag *safeBag) key(password string) (crypto.Signer, error) {
	der := bag.Value.Bytes
	if bag.Type.Equal(oidShroudedKey) {
		var err error
		if der, err = decryptPKCS8(der, password); err != nil {
			return nil, err
		}
	}
	return parseKey(der)
}

// verify reports whether a MAC is that of b. A file without a MAC has nothing to verify.
func (m *macData) verify(b []byte, password string) (intact bool, err error) {
	if len(m.Digest.Algorithm.Algorithm) == 0 {
		return true, nil
	}
	if m.Digest.Algorithm.Algorithm.Equal(oidPBMAC1) {
		return m.verifyPBMAC1(b, password)
	}
	h := digest(m.Digest.Algorithm.Algorithm)
	if h == nil || m.Iterations < 1 {
		return false, fmt.Errorf("its MAC has the unknown algorithm %v", m.Digest.Algorithm.Algorithm)
	}
	if m.Iterations > mostIterations {
		return false, errIterations(m.Iterations)
	}
	for _, pw := range bmpPasswords(password) {
		mac := hmac.New(h, pkcs12Key(h, macKey, pw, m.Salt, m.Iterations, h().Size()))
		mac.Write(b)
		intact = intact || hmac.Equal(mac.Sum(nil), m.Digest.Sum)
	}
	return intact, nil
}

// verifyPBMAC1 verifies a MAC of RFC 9579.
func (m *macData) verifyPBMAC1(b []byte, password string) (bool, error) {
	var p struct{ KDF, Scheme pkix.AlgorithmIdentifier }
	var kdf pbkdf2Params
	if _, err := asn1.Unmarshal(m.Digest.Algorithm.Parameters.FullBytes, &p); err != nil {
		return false, fmt.Errorf("decode PKCS #12: %w", err)
	}
	if _, err := asn1.Unmarshal(p.KDF.Parameters.FullBytes, &kdf); err != nil {
		return false, fmt.Errorf("decode PKCS #12: %w", err)
	}
	prf, h := hashOf(kdf.PRF.Algorithm), hashOf(p.Scheme.Algorithm)
	switch {
	case prf == nil || h == nil || kdf.Iterations < 1 || kdf.KeyLength < 1 || kdf.KeyLength > sha512.BlockSize:
		return false, errors.New("its MAC has an unknown algorithm")
	case kdf.Iterations > mostIterations:
		return false, errIterations(kdf.Iterations)
	}
	key, err := pbkdf2.Key(prf, password, kdf.Salt, kdf.Iterations, kdf.KeyLength)
	if err != nil {
		return false, err
	}
	mac := hmac.New(h, key)
	mac.Write(b)
	return hmac.Equal(mac.Sum(nil), m.Digest.Sum), nil
}

// digest returns the hash with an object identifier, or nil.
func digest(id asn1.ObjectIdentifier) func() hash.Hash {
	switch id.String() {
	case "1.3.14.3.2.26":
		return sha1.New
	case "2.16.840.1.101.3.4.2.4":
		return sha256.New224
	case "2.16.840.1.101.3.4.2.1":
		return sha256.New
	case "2.16.840.1.101.3.4.2.2":
		return sha512.New384
	case "2.16.840.1.101.3.4.2.3":
		return sha512.New
	}
	return nil
}

// The purposes of keys that are derived from a password, RFC 7292, appendix B.3.
const (
	cipherKey = 1
	cipherIV  = 2
	macKey    = 3
)

// bmpPasswords returns a password in the encoding of RFC 7292, appendix B.1: Java's
// characters and a zero. For the empty password some tools leave out the zero.
func bmpPasswords(password string) [][]byte {
	list := [][]byte{append(utf16Bytes(password), 0, 0)}
	if password == "" {
		list = append(list, nil)
	}
	return list
}

// pkcs12Key derives size bytes from a password: RFC 7292, appendix B.2.
func pkcs12Key(h func() hash.Hash, purpose byte, password, salt []byte, iterations, size int) (key []byte) {
	block := h().BlockSize()
	fill := func(b []byte) []byte { // repeats b up to a multiple of the block
		n := (len(b) + block - 1) / block * block
		return bytes.Repeat(b, n/max(1, len(b))+1)[:n]
	}
	in := append(fill(salt), fill(password)...)
	diversifier := bytes.Repeat([]byte{purpose}, block)
	for {
		sum := h()
		sum.Write(diversifier)
		sum.Write(in)
		a := sum.Sum(nil)
		for range iterations - 1 {
			sum.Reset()
			sum.Write(a)
			a = sum.Sum(a[:0])
		}
		if key = append(key, a...); len(key) >= size {
			return key[:size]
		}
		b := bytes.Repeat(a, block/len(a)+1)[:block]
		for i := 0; i < len(in); i += block {
			addOne(in[i:i+block], b)
		}
	}
}

// addOne adds b and 1 to the big-endian number x of the same length.
func addOne(x, b []byte) {
	carry := 1
	for i := len(x) - 1; i >= 0; i-- {
		carry += int(x[i]) + int(b[i])
		x[i] = byte(carry)
		carry >>= 8
	}
}
