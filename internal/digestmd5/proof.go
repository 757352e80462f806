package digestmd5

import (
	"crypto/md5"
	"encoding/hex"
)

// Terms are what both sides have agreed on, and prove the password for. Strings are UTF-8.
type Terms struct {
	User, Realm, AuthzID string
	Nonce, Cnonce        string
	URI                  string
}

// Secret is HEX(H(A1)) of RFC 2831 section 2.1.2.1. Names and passwords that can be
// written in ISO 8859-1 are hashed in it, even if UTF-8 was agreed on.
func (t Terms) Secret(password string) string {
	inner := md5.Sum([]byte(hashed(t.User) + ":" + hashed(t.Realm) + ":" + hashed(password)))
	a1 := string(inner[:]) + ":" + t.Nonce + ":" + t.Cnonce
	if t.AuthzID != "" {
		a1 += ":" + t.AuthzID
	}
	return hexMD5(a1)
}

// ClientProof is the response-value with which the client proves that it knows the secret.
func (t Terms) ClientProof(secret string) string { return t.proof(secret, "AUTHENTICATE") }

// ServerProof is the response-value with which the server proves it.
func (t Terms) ServerProof(secret string) string { return t.proof(secret, "") }

func (t Terms) proof(secret, method string) string {
	return hexMD5(secret + ":" + t.Nonce + ":00000001:" + t.Cnonce + ":auth:" + hexMD5(method+":"+t.URI))
}

func hexMD5(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// hashed returns s in the encoding in which it is hashed.
func hashed(s string) string {
	if l, ok := Latin1(s); ok {
		return l
	}
	return s
}

// Latin1 returns s in ISO 8859-1, if it can be written so.
func Latin1(s string) (string, bool) {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return "", false
		}
		b = append(b, byte(r))
	}
	return string(b), true
}

// FromLatin1 returns the UTF-8 of a string in ISO 8859-1.
func FromLatin1(s string) string {
	r := make([]rune, len(s))
	for i := range len(s) {
		r[i] = rune(s[i])
	}
	return string(r)
}
