package sasl

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/zkd-project/zkd/internal/scram"
)

// saltSize is the size of salts, in bytes.
const saltSize = 16

// NewVerifier returns what a server stores instead of a password.
func NewVerifier(mechanism, password string) (scram.Verifier, error) {
	for _, h := range []scram.Hash{scram.SHA256, scram.SHA512} {
		if h.Mechanism == mechanism {
			return newVerifier(h, password)
		}
	}
	return scram.Verifier{}, fmt.Errorf("%q is not %s or %s", mechanism, scram.SHA256.Mechanism, scram.SHA512.Mechanism)
}

func newVerifier(h scram.Hash, password string) (scram.Verifier, error) {
	prepared, err := scram.Prepare(password)
	if err != nil {
		return scram.Verifier{}, err
	}
	salt := make([]byte, saltSize)
	rand.Read(salt)
	return scram.New(h, prepared, salt, scram.LeastIterations)
}

// scramExchange is the server of RFC 5802, without channel binding.
type scramExchange struct {
	hash   scram.Hash
	server *Server
	users  []*Users

	begun    bool
	name     string
	known    bool
	verifier scram.Verifier
	gs2      string // the header, which the client repeats
	messages string // so far: client-first-bare, server-first
	nonce    string
}

func (m *scramExchange) step(token []byte) ([]byte, string, error) {
	if !utf8.Valid(token) {
		return nil, "", fmt.Errorf("%s: the message is not UTF-8", m.hash.Mechanism)
	}
	var reply []byte
	var err error
	if m.begun {
		if reply, err = m.final(string(token)); err == nil {
			return reply, m.name, nil
		}
	} else {
		m.begun = true
		reply, err = m.first(string(token))
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s as %.64q: %w", m.hash.Mechanism, m.name, err)
	}
	return reply, "", nil
}

// user returns the name in the first message, which the last one proves.
func (m *scramExchange) user([]byte) string { return m.name }

// first answers client-first-message.
func (m *scramExchange) first(message string) ([]byte, error) {
	binding, rest, _ := strings.Cut(message, ",")
	authzid, bare, ok := strings.Cut(rest, ",")
	switch {
	case !ok || binding != "n" && binding != "y":
		return nil, errors.New("the message has no header, or wants a channel binding")
	case authzid != "" && !strings.HasPrefix(authzid, "a="):
		return nil, errors.New("the header has no authorization id in its place")
	}
	list, err := scram.ParseMessage(bare, "nr")
	if err != nil {
		return nil, err
	}
	if m.name, err = scram.UnescapeName(list[0].Value); err != nil {
		return nil, err
	}
	if other, err := scram.UnescapeName(strings.TrimPrefix(authzid, "a=")); err != nil || other != "" && other != m.name {
		return nil, errors.New("the client asks for the id of another user")
	}
	if m.name == "" || list[1].Value == "" {
		return nil, errors.New("no name, or no nonce")
	}
	if m.verifier, m.known = verifierOf(m.users, m.name, m.hash); !m.known {
		m.verifier = m.server.noVerifier(m.hash, m.name)
	}
	m.gs2, m.nonce = binding+","+authzid+",", list[1].Value+m.server.nonce()
	reply := fmt.Sprintf("r=%s,s=%s,i=%d", m.nonce, base64.StdEncoding.EncodeToString(m.verifier.Salt), m.verifier.Iterations)
	m.messages = bare + "," + reply
	return []byte(reply), nil
}

// final answers client-final-message.
func (m *scramExchange) final(message string) ([]byte, error) {
	list, err := scram.ParseMessage(message, "cr")
	if err != nil {
		return nil, err
	}
	last := list[len(list)-1]
	proof, err := base64.StdEncoding.DecodeString(last.Value)
	gs2, errGS2 := base64.StdEncoding.DecodeString(list[0].Value)
	switch {
	case last.Name != 'p' || err != nil:
		return nil, errors.New("the message does not end with a proof")
	case errGS2 != nil || string(gs2) != m.gs2:
		return nil, errors.New("the header is not that of the first message")
	case list[1].Value != m.nonce:
		return nil, errors.New("not the nonce of this exchange")
	}
	m.messages += "," + message[:strings.LastIndex(message, ",p=")]
	if !m.verifier.Check(proof, m.messages) || !m.known {
		return nil, refusal(m.known)
	}
	return []byte("v=" + base64.StdEncoding.EncodeToString(m.verifier.Signature(m.messages))), nil
}

// verifierOf returns the verifier of a user for a mechanism.
func verifierOf(all []*Users, name string, h scram.Hash) (scram.Verifier, bool) {
	for _, users := range all {
		if u := users.table[name]; u != nil {
			return u.verifier(h)
		}
	}
	return scram.Verifier{}, false
}

// noVerifier returns a verifier that fits no password. For each name the salt is always the
// same, so that a client can't find out who is known.
func (s *Server) noVerifier(h scram.Hash, name string) scram.Verifier {
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte(h.Mechanism + name))
	return scram.Verifier{Hash: h, Salt: mac.Sum(nil)[:saltSize], Iterations: scram.LeastIterations, StoredKey: make([]byte, 32), ServerKey: s.secret}
}

// plainExchange is the server of RFC 4616. The password comes in plain text, so the
// connection must have TLS.
type plainExchange struct {
	server *Server
	users  []*Users
}

func (m *plainExchange) step(token []byte) ([]byte, string, error) {
	parts := strings.Split(string(token), "\x00")
	if len(parts) != 3 || !utf8.Valid(token) {
		return nil, "", errors.New("PLAIN: not an authorization id, a name and a password in UTF-8")
	}
	authzid, name, password := parts[0], parts[1], parts[2]
	if name == "" || authzid != "" && authzid != name {
		return nil, "", fmt.Errorf("PLAIN as %.64q: no name, or the client asks for the id of another user", name)
	}
	known, right := m.check(name, password)
	if !right {
		return nil, "", fmt.Errorf("PLAIN as %.64q: %w", name, refusal(known))
	}
	return []byte{}, name, nil // a null token would be that of a server without SASL
}

// user returns the name in the token.
func (m *plainExchange) user(token []byte) string {
	if parts := strings.Split(string(token), "\x00"); len(parts) == 3 {
		return parts[1]
	}
	return ""
}

// check reports whether the user is known, and the password is right. One password is checked at
// a time, so that attempts take no more than one core.
func (m *plainExchange) check(name, password string) (known, right bool) {
	prepared, err := scram.Prepare(password)
	if err != nil {
		return true, false
	}
	m.server.checking.Lock()
	defer m.server.checking.Unlock()
	for _, h := range []scram.Hash{scram.SHA256, scram.SHA512} {
		if v, ok := verifierOf(m.users, name, h); ok {
			return true, v.CheckPassword(prepared)
		}
	}
	m.server.noVerifier(scram.SHA256, name).CheckPassword(prepared) // takes the same time
	return false, false
}
