package digestmd5

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// mostChallenge is the longest challenge, in bytes: RFC 2831 section 2.1.1.
const mostChallenge = 2048

// Client is the client's side of one exchange. It implements Mechanism of client/sasl.
type Client struct {
	user, password string
	uri, cnonce    string

	step    int
	rspauth string // what the server has to answer
}

// NewClient returns the client of an exchange with a service, such as "imap/host". cnonce must
// be random text.
func NewClient(user, password, uri, cnonce string) (*Client, error) {
	switch {
	case user == "":
		return nil, errors.New("DIGEST-MD5: no user name")
	case !utf8.ValidString(user) || !utf8.ValidString(password):
		return nil, errors.New("DIGEST-MD5: the user name and the password must be UTF-8")
	}
	return &Client{user: user, password: password, uri: uri, cnonce: cnonce}, nil
}

// String names the mechanism and the user.
func (m *Client) String() string { return fmt.Sprintf("DIGEST-MD5 as %q", m.user) }

// Step sends an empty token, as the server has the first word in this mechanism,
// answers the challenge, and checks the server's proof.
func (m *Client) Step(token []byte) ([]byte, bool, error) {
	m.step++
	switch m.step {
	case 1:
		return []byte{}, false, nil
	case 2:
		c, err := parseChallenge(token)
		if err != nil {
			return nil, false, fmt.Errorf("challenge: %w", err)
		}
		answer, err := m.answer(c)
		return answer, false, err
	}
	fields, err := ParseDirectives(string(token))
	if err != nil {
		return nil, false, fmt.Errorf("server's proof: %w", err)
	}
	got := ""
	for _, f := range fields {
		if f.Name == "rspauth" {
			got = f.Value
		}
	}
	if subtle.ConstantTimeCompare([]byte(got), []byte(m.rspauth)) != 1 {
		return nil, false, errors.New("the server did not prove that it knows the password: it may be somebody else's")
	}
	return nil, true, nil
}

// answer is the digest-response: RFC 2831 section 2.1.2.
func (m *Client) answer(c challenge) ([]byte, error) {
	t := Terms{User: m.user, Realm: c.realm, Nonce: c.nonce, Cnonce: m.cnonce, URI: m.uri}
	user := m.user
	if !c.utf8 {
		var ok bool
		if user, ok = Latin1(m.user); !ok {
			return nil, errors.New("the server takes no UTF-8, and the user name has letters beyond ISO 8859-1")
		}
		if _, ok = Latin1(m.password); !ok {
			return nil, errors.New("the server takes no UTF-8, and the password has letters beyond ISO 8859-1")
		}
		t.Realm = FromLatin1(c.realm)
	}
	secret := t.Secret(m.password)
	m.rspauth = t.ServerProof(secret)

	var b strings.Builder
	if c.utf8 {
		b.WriteString("charset=utf-8,")
	}
	fmt.Fprintf(&b, "username=%s,", Quote(user))
	if c.hasRealm {
		fmt.Fprintf(&b, "realm=%s,", Quote(c.realm))
	}
	fmt.Fprintf(&b, "nonce=%s,nc=00000001,cnonce=%s,digest-uri=%s,response=%s,qop=auth",
		Quote(c.nonce), Quote(m.cnonce), Quote(m.uri), t.ClientProof(secret))
	return []byte(b.String()), nil
}

// challenge is what matters of a digest-challenge.
type challenge struct {
	realm    string // the first, if the server offers several
	hasRealm bool
	nonce    string
	utf8     bool
}

// singleDirectives are those that a challenge may have at most once. There may be
// several realms, and anything that the RFC does not know.
var singleDirectives = []string{"nonce", "qop", "stale", "maxbuf", "charset", "algorithm", "cipher"}

// parseChallenge reads a digest-challenge: RFC 2831 section 2.1.1.
func parseChallenge(b []byte) (c challenge, err error) {
	if len(b) > mostChallenge {
		return c, fmt.Errorf("%d bytes, more than %d", len(b), mostChallenge)
	}
	fields, err := ParseDirectives(string(b), singleDirectives...)
	if err != nil {
		return c, err
	}
	qop, algorithm := "auth", false
	for _, f := range fields {
		switch f.Name {
		case "realm":
			if !c.hasRealm {
				c.realm, c.hasRealm = f.Value, true
			}
		case "nonce":
			c.nonce = f.Value
		case "qop":
			qop = f.Value
		case "charset":
			if !strings.EqualFold(f.Value, "utf-8") {
				return c, fmt.Errorf("charset %q, where only utf-8 is defined", f.Value)
			}
			c.utf8 = true
		case "algorithm":
			if !strings.EqualFold(f.Value, "md5-sess") {
				return c, fmt.Errorf("algorithm %q, where only md5-sess is defined", f.Value)
			}
			algorithm = true
		}
	}
	switch {
	case c.nonce == "":
		return c, errors.New("no nonce")
	case !algorithm:
		return c, errors.New("no algorithm")
	case !offersAuth(qop):
		return c, fmt.Errorf("qop %q does not offer auth", qop)
	}
	return c, nil
}

func offersAuth(qop string) bool {
	for q := range strings.SplitSeq(qop, ",") {
		if strings.EqualFold(strings.Trim(q, " \t"), "auth") {
			return true
		}
	}
	return false
}
