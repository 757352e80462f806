package auth

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"hash"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// newHash returns the hash with this name in Java's MessageDigest. SHA1 is the default,
// for compatibility with existing ACLs.
func newHash(alg string) (func() hash.Hash, error) {
	switch strings.ToUpper(alg) {
	case "", "SHA1", "SHA-1", "SHA":
		return sha1.New, nil
	case "MD5":
		return md5.New, nil
	case "SHA-224":
		return sha256.New224, nil
	case "SHA-256":
		return sha256.New, nil
	case "SHA-384":
		return sha512.New384, nil
	case "SHA-512":
		return sha512.New, nil
	case "SHA3-256":
		return func() hash.Hash { return sha3.New256() }, nil
	case "SHA3-384":
		return func() hash.Hash { return sha3.New384() }, nil
	case "SHA3-512":
		return func() hash.Hash { return sha3.New512() }, nil
	}
	return nil, fmt.Errorf("hash %q is not one of SHA1, MD5, SHA-224, SHA-256, SHA-384, SHA-512, SHA3-256, SHA3-384, SHA3-512", alg)
}

// digestProvider is the scheme of users with passwords. An identity is the user's name and
// the hash of "user:password" in base64. The server has no list of users, so every auth
// packet proves an identity.
type digestProvider struct {
	newHash func() hash.Hash
	super   string // the identity of the super user; "" if there is none
}

func newDigestProvider(alg, super string) (digestProvider, error) {
	h, err := newHash(alg)
	return digestProvider{h, super}, err
}

func (digestProvider) Scheme() string { return schemeDigest }
func (digestProvider) Personal() bool { return true }

func (p digestProvider) ProvePacket(data []byte) (Proof, error) {
	if data == nil {
		return Proof{}, jute.ErrAuthFailed
	}
	id := digestID(p.newHash(), data)
	ids := []jute.ID{{Scheme: schemeDigest, ID: id}}
	if p.super != "" && subtle.ConstantTimeCompare([]byte(id), []byte(p.super)) == 1 {
		ids = []jute.ID{Super(""), ids[0]}
	}
	return Proof{IDs: ids}, nil
}

// Match compares in constant time: expr may be the hash of another user's password.
func (digestProvider) Match(id, expr string) bool {
	return subtle.ConstantTimeCompare([]byte(id), []byte(expr)) == 1
}

// DigestID returns the identity of "user:password" in the scheme digest, with a hash by its name
// in Java's MessageDigest.
func DigestID(alg, credentials string) (string, error) {
	h, err := newHash(alg)
	if err != nil {
		return "", err
	}
	return digestID(h(), []byte(credentials)), nil
}

// CheckDigestID checks that a text has the form of an identity of the scheme digest.
func CheckDigestID(alg, id string) error {
	h, err := newHash(alg)
	if err != nil {
		return err
	}
	user, hash, _ := strings.Cut(id, ":")
	sum, err := base64.StdEncoding.Strict().DecodeString(hash)
	if user == "" || err != nil || len(sum) != h().Size() {
		return fmt.Errorf("it is not a name, a colon and %d characters of base64", base64.StdEncoding.EncodedLen(h().Size()))
	}
	return nil
}

// digestID converts "user:password" into "user:base64(hash)". The user ends at the first
// colon; without one, all of it is the user. The hash covers everything, as Java reads it.
func digestID(h hash.Hash, data []byte) string {
	text := jute.Text(data)
	h.Write([]byte(text)) // a hash returns no error
	user, _, _ := strings.Cut(text, ":")
	return user + ":" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// Valid requires two parts separated by a colon, the second not empty. More colons are
// allowed only at the end: Java's String.split drops empty parts there, and ACLs like
// "user:hash:" may have been stored.
func (digestProvider) Valid(expr string) bool {
	return strings.Count(strings.TrimRight(expr, ":"), ":") == 1
}
