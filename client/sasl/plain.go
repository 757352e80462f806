package sasl

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Plain returns a value for client.Options.SASL. It authenticates to zkd's servers by sending
// the password (RFC 4616). It fails on a connection without TLS. Apache's servers do not have it.
func Plain(user, password string) func(server string) (Mechanism, error) {
	return func(string) (Mechanism, error) {
		if user == "" || !utf8.ValidString(user) || !utf8.ValidString(password) || strings.Contains(user+password, "\x00") {
			return nil, errors.New("PLAIN: the user name is empty, or it or the password is not UTF-8 without zeros")
		}
		return &plainClient{user: user, password: password}, nil
	}
}

type plainClient struct {
	user, password string
	sent           bool
}

// String names the mechanism and the user.
func (m *plainClient) String() string { return fmt.Sprintf("PLAIN as %q", m.user) }

func (m *plainClient) needsTLS() {}

// Step sends the password. The server accepts it with an empty token: a null one would come
// from a server that knows no SASL.
func (m *plainClient) Step(challenge []byte) ([]byte, bool, error) {
	switch {
	case !m.sent:
		m.sent = true
	case len(challenge) > 0:
		return nil, false, errors.New("the server answers the password with a challenge: does it have PLAIN?")
	default:
		return nil, true, nil
	}
	return []byte("PLAIN\x00\x00" + m.user + "\x00" + m.password), false, nil
}
