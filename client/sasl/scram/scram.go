package scram

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zkd-project/zkd/client/sasl"
	"github.com/zkd-project/zkd/internal/scram"
)

// SHA256 returns a value for client.Options.SASL. It authenticates to zkd's servers
// with SCRAM-SHA-256 (RFC 7677): the password is not sent, and the server must prove that it
// knows a verifier of it. Apache's servers have no SCRAM.
func SHA256(user, password string) func(server string) (sasl.Mechanism, error) {
	return with(scram.SHA256, user, password)
}

// SHA512 is like SHA256 with the hash SHA-512.
func SHA512(user, password string) func(server string) (sasl.Mechanism, error) {
	return with(scram.SHA512, user, password)
}

func with(h scram.Hash, user, password string) func(server string) (sasl.Mechanism, error) {
	return func(string) (sasl.Mechanism, error) {
		prepared, err := scram.Prepare(password)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", h.Mechanism, err)
		case user == "" || !utf8.ValidString(user):
			return nil, fmt.Errorf("%s: the user name is empty or not UTF-8", h.Mechanism)
		}
		return &client{hash: h, user: user, password: prepared, nonce: rand.Text()}, nil
	}
}

// client is the client of RFC 5802, without channel binding. Its first token begins
// with the name of the mechanism and a zero, as ZooKeeper's request has no place for it.
type client struct {
	hash           scram.Hash
	user, password string
	nonce          string

	step      int
	bare      string // client-first-message-bare
	signature []byte // that the server must have
}

// String names the mechanism and the user.
func (m *client) String() string { return fmt.Sprintf("%s as %q", m.hash.Mechanism, m.user) }

// Step sends the first message, proves the password, and checks the server's signature.
func (m *client) Step(challenge []byte) ([]byte, bool, error) {
	m.step++
	switch m.step {
	case 1:
		m.bare = "n=" + scram.EscapeName(m.user) + ",r=" + m.nonce
		return []byte(m.hash.Mechanism + "\x00n,," + m.bare), false, nil
	case 2:
		answer, err := m.prove(string(challenge))
		if err != nil {
			return nil, false, fmt.Errorf("challenge: %w", err)
		}
		return answer, false, nil
	}
	list, err := scram.ParseMessage(string(challenge), "v")
	if err != nil {
		return nil, false, fmt.Errorf("server's proof: %w", err)
	}
	signature, err := base64.StdEncoding.DecodeString(list[0].Value)
	if err != nil || subtle.ConstantTimeCompare(signature, m.signature) != 1 {
		return nil, false, errors.New("the server did not prove that it knows the password: it may be somebody else's")
	}
	return nil, true, nil
}

// prove answers server-first-message.
func (m *client) prove(challenge string) ([]byte, error) {
	list, err := scram.ParseMessage(challenge, "rsi")
	if err != nil {
		return nil, fmt.Errorf("%w: does the server have %s?", err, m.hash.Mechanism)
	}
	nonce := list[0].Value
	salt, err := base64.StdEncoding.DecodeString(list[1].Value)
	iterations, errCount := strconv.Atoi(list[2].Value)
	switch {
	case !strings.HasPrefix(nonce, m.nonce) || len(nonce) == len(m.nonce):
		return nil, errors.New("the nonce does not continue ours")
	case err != nil || len(salt) == 0:
		return nil, errors.New("no salt")
	case errCount != nil || iterations < scram.LeastIterations || iterations > scram.MostIterations:
		return nil, fmt.Errorf("%.20q iterations, want %d to %d", list[2].Value, scram.LeastIterations, scram.MostIterations)
	}
	final := "c=biws,r=" + nonce // biws is the header n,, in base64
	proof, signature, err := m.hash.ClientProof(m.password, salt, iterations, m.bare+","+challenge+","+final)
	if err != nil {
		return nil, err
	}
	m.signature = signature
	return []byte(final + ",p=" + base64.StdEncoding.EncodeToString(proof)), nil
}
