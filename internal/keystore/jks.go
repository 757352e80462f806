package keystore

import (
	"crypto"
	"crypto/sha1"
	"crypto/subtle"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"
)

// The JKS format, as sun.security.provider.JavaKeyStore writes it; numbers are
// big-endian, and text is two bytes of length and modified UTF-8:
//
//	4 bytes   0xFEEDFEED
//	4 bytes   version, 1 or 2
//	4 bytes   number of entries
//	  4 bytes   1: a private key, 2: a trusted certificate
//	  text      alias
//	  8 bytes   time
//	  of a private key:
//	    4 bytes + n   the protected key, an EncryptedPrivateKeyInfo
//	    4 bytes       number of certificates, its own first
//	  of each certificate:
//	    text          "X.509"; not in version 1
//	    4 bytes + n   the certificate
//	20 bytes  SHA-1 of the password, of "Mighty Aphrodite", and of all before
//
// A key is protected by a stream of SHA-1 sums of the password and a salt.

var errShortJKS = errors.New("the Java key store is damaged: it ends too soon, or a length in it is wrong")

// jksReader cuts fields from a JKS file. After a field that is not there, err is set and
// all further fields are empty.
type jksReader struct {
	b   []byte
	err error
}

func (r *jksReader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.err, r.b = errShortJKS, nil
		return nil
	}
	field := r.b[:n:n]
	r.b = r.b[n:]
	return field
}

func (r *jksReader) uint32() uint32 {
	if b := r.bytes(4); r.err == nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *jksReader) text() []byte {
	if b := r.bytes(2); r.err == nil {
		return r.bytes(uint64(binary.BigEndian.Uint16(b)))
	}
	return nil
}

// certificate reads a certificate of an entry. One that can't be parsed is skipped.
func (r *jksReader) certificate(c *contents, version uint32, alias string) []*x509.Certificate {
	if version == 2 {
		r.text()
	}
	der := r.bytes(uint64(r.uint32()))
	if r.err != nil {
		return nil
	}
	if cert := c.parse(der, alias); cert != nil {
		return []*x509.Certificate{cert}
	}
	return nil
}

func decodeJKS(b []byte, password string) (c contents, err error) {
	pw := utf16Bytes(password)
	body := b[:max(0, len(b)-sha1.Size)]
	if password != "" { // Java, too, reads the certificates of a store without its password
		h := sha1.New()
		h.Write(pw)
		h.Write([]byte("Mighty Aphrodite"))
		h.Write(body)
		if subtle.ConstantTimeCompare(h.Sum(nil), b[len(body):]) != 1 {
			return c, errWrongPassword
		}
	}
	r := &jksReader{b: body}
	r.uint32()
	version := r.uint32()
	if r.err == nil && version != 1 && version != 2 {
		return c, fmt.Errorf("the Java key store has version %d, and only 1 and 2 are known", version)
	}
	for n := r.uint32(); n > 0 && r.err == nil; n-- {
		tag := r.uint32()
		alias := string(r.text())
		r.bytes(8)
		switch {
		case r.err != nil:
		case tag == 2:
			c.trusted = append(c.trusted, r.certificate(&c, version, alias)...)
		case tag == 1:
			r.keyEntry(&c, version, alias, pw)
		default:
			return contents{}, errShortJKS
		}
	}
	if r.err != nil {
		return contents{}, r.err
	}
	return c, nil
}

// keyEntry reads a private key and its chain. As in Java, the key's own certificate is
// trusted if the file is used as a trust store.
func (r *jksReader) keyEntry(c *contents, version uint32, alias string, password []byte) {
	protected := r.bytes(uint64(r.uint32()))
	e := keyEntry{name: alias, open: func() (crypto.Signer, error) {
		der, err := decryptJKSKey(protected, password)
		if err != nil {
			return nil, err
		}
		return parseKey(der)
	}}
	for i, n := uint32(0), r.uint32(); i < n && r.err == nil; i++ {
		cert := r.certificate(c, version, alias)
		if e.certs = append(e.certs, cert...); i == 0 {
			c.trusted = append(c.trusted, cert...)
		}
	}
	c.keys = append(c.keys, e)
}

var oidJKSKey = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 42, 2, 17, 1, 1}

// decryptJKSKey returns the key that was protected by sun.security.provider.KeyProtector:
// 20 bytes of salt, the encrypted key, and 20 bytes to check it.
func decryptJKSKey(der, password []byte) ([]byte, error) {
	var info encryptedKey
	if _, err := asn1.Unmarshal(der, &info); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if !info.Algorithm.Algorithm.Equal(oidJKSKey) {
		return nil, errors.New("the private key in the Java key store is not protected in the way of JKS")
	}
	if len(info.Data) < 2*sha1.Size {
		return nil, errShortJKS
	}
	if len(password) == 0 {
		return nil, ErrNoPassword
	}
	salt, data, check := info.Data[:sha1.Size], info.Data[sha1.Size:len(info.Data)-sha1.Size], info.Data[len(info.Data)-sha1.Size:]
	plain := make([]byte, len(data))
	sum := salt
	for i := 0; i < len(data); i += sha1.Size {
		next := sha1.Sum(append(password[:len(password):len(password)], sum...))
		sum = next[:]
		subtle.XORBytes(plain[i:], data[i:], sum)
	}
	want := sha1.Sum(append(password[:len(password):len(password)], plain...))
	if subtle.ConstantTimeCompare(want[:], check) != 1 {
		return nil, errWrongPassword
	}
	return plain, nil
}

// utf16Bytes returns the password in the encoding of Java's characters.
func utf16Bytes(password string) (b []byte) {
	for _, unit := range utf16.Encode([]rune(password)) {
		b = binary.BigEndian.AppendUint16(b, unit)
	}
	return b
}
