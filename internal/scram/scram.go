// Package scram has what both sides of the SASL mechanisms SCRAM-SHA-256 and SCRAM-SHA-512 (RFC
// 5802, RFC 7677) share: the attributes of their messages, what a server stores in place of a
// password, and the proofs. There is no channel binding.
package scram

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/secure/precis"
)

// Hash is the hash function of a mechanism.
type Hash struct {
	// Mechanism is the name of the mechanism.
	Mechanism string
	new       func() hash.Hash
}

// The mechanisms.
var (
	SHA256 = Hash{"SCRAM-SHA-256", sha256.New}
	SHA512 = Hash{"SCRAM-SHA-512", sha512.New}
)

const (
	// LeastIterations is what RFC 7677 section 4 asks for.
	LeastIterations = 4096
	// MostIterations bounds the time that a peer can make a login take.
	MostIterations = 1 << 20
)

// Prepare returns the form of a password that is hashed: RFC 8265, which replaces
// SASLprep.
func Prepare(password string) (string, error) {
	p, err := precis.OpaqueString.String(password)
	if err != nil || !utf8.ValidString(password) {
		return "", errors.New("the password is empty, or has characters that passwords may not have")
	}
	return p, nil
}

// Verifier is what a server stores of a user, instead of the password.
type Verifier struct {
	Hash                 Hash
	Salt                 []byte
	Iterations           int
	StoredKey, ServerKey []byte
}

// New returns the verifier of a password that Prepare has returned.
func New(h Hash, password string, salt []byte, iterations int) (Verifier, error) {
	salted, err := h.salted(password, salt, iterations)
	if err != nil {
		return Verifier{}, err
	}
	v := Verifier{Hash: h, Salt: salt, Iterations: iterations}
	v.StoredKey = h.sum(h.mac(salted, "Client Key"))
	v.ServerKey = h.mac(salted, "Server Key")
	return v, nil
}

func (h Hash) salted(password string, salt []byte, iterations int) ([]byte, error) {
	return pbkdf2.Key(h.new, password, salt, iterations, h.new().Size())
}

func (h Hash) mac(key []byte, message string) []byte {
	m := hmac.New(h.new, key)
	m.Write([]byte(message))
	return m.Sum(nil)
}

func (h Hash) sum(b []byte) []byte {
	s := h.new()
	s.Write(b)
	return s.Sum(nil)
}

// ClientProof returns the proof that the client knows the password, and the server's
// signature that it must get in return. messages is the AuthMessage of RFC 5802 section 3.
func (h Hash) ClientProof(password string, salt []byte, iterations int, messages string) (proof, signature []byte, err error) {
	salted, err := h.salted(password, salt, iterations)
	if err != nil {
		return nil, nil, err
	}
	key := h.mac(salted, "Client Key")
	proof = h.mac(h.sum(key), messages)
	subtle.XORBytes(proof, proof, key)
	return proof, h.mac(h.mac(salted, "Server Key"), messages), nil
}

// Check reports whether a client's proof is right.
func (v Verifier) Check(proof []byte, messages string) bool {
	key := v.Hash.mac(v.StoredKey, messages)
	if len(proof) != len(key) {
		return false
	}
	subtle.XORBytes(key, key, proof)
	return subtle.ConstantTimeCompare(v.Hash.sum(key), v.StoredKey) == 1
}

// Signature is the proof that the server knows the verifier.
func (v Verifier) Signature(messages string) []byte { return v.Hash.mac(v.ServerKey, messages) }

// CheckPassword reports whether the verifier is that of a password.
func (v Verifier) CheckPassword(password string) bool {
	other, err := New(v.Hash, password, v.Salt, v.Iterations)
	return err == nil && subtle.ConstantTimeCompare(other.StoredKey, v.StoredKey) == 1
}

// Text is the verifier in the form of PostgreSQL and others:
// mechanism$iterations:salt$storedKey:serverKey.
func (v Verifier) Text() string {
	enc := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("%s$%d:%s$%s:%s", v.Hash.Mechanism, v.Iterations, enc(v.Salt), enc(v.StoredKey), enc(v.ServerKey))
}

// String shows no keys.
func (v Verifier) String() string { return v.Hash.Mechanism + "$(not shown)" }

// GoString shows no keys.
func (v Verifier) GoString() string { return v.String() }

var errVerifier = errors.New("no verifier: want mechanism$iterations:salt$storedKey:serverKey")

// Parse reads the form of Text.
func Parse(text string) (v Verifier, err error) {
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == '$' || r == ':' })
	if len(parts) != 5 || strings.Count(text, "$") != 2 || strings.Count(text, ":") != 2 {
		return v, errVerifier
	}
	i := slices.IndexFunc([]Hash{SHA256, SHA512}, func(h Hash) bool { return h.Mechanism == parts[0] })
	if i < 0 {
		return v, fmt.Errorf("%.20q is not %s or %s", parts[0], SHA256.Mechanism, SHA512.Mechanism)
	}
	v.Hash = []Hash{SHA256, SHA512}[i]
	if v.Iterations, err = strconv.Atoi(parts[1]); err != nil || v.Iterations < LeastIterations || v.Iterations > MostIterations {
		return v, fmt.Errorf("the number of iterations must be from %d to %d", LeastIterations, MostIterations)
	}
	for n, field := range []*[]byte{&v.Salt, &v.StoredKey, &v.ServerKey} {
		if *field, err = base64.StdEncoding.DecodeString(parts[2+n]); err != nil {
			return v, errVerifier
		}
	}
	if size := v.Hash.new().Size(); len(v.StoredKey) != size || len(v.ServerKey) != size || len(v.Salt) < 8 {
		return v, errVerifier
	}
	return v, nil
}

// Attribute is one name=value of a message.
type Attribute struct {
	Name  byte
	Value string
}

// maxMessage bounds a message, in bytes.
const maxMessage = 4096

// ParseMessage reads a message, whose first attributes must have these names, in this order.
func ParseMessage(message, names string) ([]Attribute, error) {
	if len(message) > maxMessage {
		return nil, fmt.Errorf("%d bytes, more than %d", len(message), maxMessage)
	}
	var list []Attribute
	for part := range strings.SplitSeq(message, ",") {
		if len(part) < 2 || part[1] != '=' {
			return nil, errors.New("not a list of attributes")
		}
		list = append(list, Attribute{part[0], part[2:]})
	}
	for i := range len(names) {
		if i >= len(list) || list[i].Name != names[i] {
			return nil, fmt.Errorf("attribute %d is not %c", i+1, names[i])
		}
	}
	return list, nil
}

// EscapeName returns a user's name as it is sent.
func EscapeName(name string) string {
	return strings.NewReplacer("=", "=3D", ",", "=2C").Replace(name)
}

// UnescapeName is the opposite of EscapeName.
func UnescapeName(sent string) (string, error) {
	var b bytes.Buffer
	for sent != "" {
		before, after, found := strings.Cut(sent, "=")
		b.WriteString(before)
		switch {
		case !found:
		case strings.HasPrefix(after, "2C"):
			b.WriteByte(',')
			after = after[2:]
		case strings.HasPrefix(after, "3D"):
			b.WriteByte('=')
			after = after[2:]
		default:
			return "", errors.New("the name has an equals sign that begins no escape sequence")
		}
		sent = after
	}
	return b.String(), nil
}
