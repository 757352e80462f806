package session

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"

	"github.com/zkd-project/zkd/internal/secret"
	"github.com/zkd-project/zkd/jute"
)

// PasswordLen is the length of a session's password in bytes.
const PasswordLen = 16

// Password proves to any server that a client owns a session.
type Password [PasswordLen]byte

// Keys makes and verifies the passwords of sessions: the first half of HMAC-SHA-256 of
// the id under a random secret that all servers of the ensemble share. (Apache's secret
// is a constant in its source, so anybody can take over a session by its id.)
//
// It may be used from any goroutine.
type Keys struct {
	inner, outer [sha256.BlockSize]byte // the secret, padded for HMAC
}

// ApachePassword returns the password that Apache's server gives to a session: the output of
// java.util.Random, seeded with the id and a constant. It is no secret.
func ApachePassword(id jute.SessionID) (p Password) {
	const multiplier, mask = 0x5DEECE66D, 1<<48 - 1
	seed := (uint64(id) ^ 0xB3415C00 ^ multiplier) & mask
	for i := 0; i < len(p); i += 4 {
		seed = (seed*multiplier + 0xB) & mask
		binary.LittleEndian.PutUint32(p[i:], uint32(seed>>16))
	}
	return p
}

// VerifyApache is like Verify for a session that Apache's server has opened.
func VerifyApache(id jute.SessionID, password []byte) bool {
	want := ApachePassword(id)
	return subtle.ConstantTimeCompare(want[:], password) == 1
}

// String shows nothing of the secret.
func (*Keys) String() string { return secret.Mask }

// GoString shows nothing of the secret.
func (*Keys) GoString() string { return secret.Mask }

// NewKeys returns the keys for a secret, which must be random.
func NewKeys(secret [32]byte) *Keys {
	var k Keys
	copy(k.inner[:], secret[:])
	k.outer = k.inner
	for i := range k.inner {
		k.inner[i] ^= 0x36
		k.outer[i] ^= 0x5c
	}
	return &k
}

// Password returns the password of a session.
//
// It implements HMAC (RFC 2104) itself instead of calling crypto/hmac, which allocates:
// when many clients reconnect at once, each one needs a password.
func (k *Keys) Password(id jute.SessionID) Password {
	var first [sha256.BlockSize + 8]byte
	copy(first[:], k.inner[:])
	binary.BigEndian.PutUint64(first[sha256.BlockSize:], uint64(id))
	digest := sha256.Sum256(first[:])

	var second [sha256.BlockSize + sha256.Size]byte
	copy(second[:], k.outer[:])
	copy(second[sha256.BlockSize:], digest[:])
	digest = sha256.Sum256(second[:])
	return Password(digest[:PasswordLen])
}

// Verify reports whether password is that of the session. Its running time does not
// depend on where a wrong password differs, and it allocates nothing.
func (k *Keys) Verify(id jute.SessionID, password []byte) bool {
	want := k.Password(id)
	return subtle.ConstantTimeCompare(want[:], password) == 1
}
