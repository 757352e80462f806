package sasl

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// digestURI names the service in DIGEST-MD5. ZooKeeper's servers all use the same
// name, whatever their host is called: protocol "zookeeper", server "zk-sasl-md5".
const digestURI = "zookeeper/zk-sasl-md5"

// mostChallenge is the longest challenge, in bytes: RFC 2831 section 2.1.1.
const mostChallenge = 2048

// DigestMD5 returns a value for client.Options.SASL. It authenticates to servers that
// have the user and the password in their JAAS configuration (DigestLoginModule). The
// password is not sent, but an attacker who reads the exchange can guess it offline:
// use TLS as well, or long passwords. The server must prove that it knows the
// password, too.
//
// The client's identity then has the scheme "sasl" and the user's name as its id. It
// is unrelated to the scheme "digest" of client.Options.Auth.
func DigestMD5(user, password string) func(server string) (Mechanism, error) {
	return func(string) (Mechanism, error) {
		switch {
		case user == "":
			return nil, errors.New("DIGEST-MD5: no user name")
		case !utf8.ValidString(user) || !utf8.ValidString(password):
			return nil, errors.New("DIGEST-MD5: the user name and the password must be UTF-8")
		}
		return &digestMD5{user: user, password: password, uri: digestURI, cnonce: rand.Text()}, nil
	}
}

// digestMD5 is the client of RFC 2831, without integrity and privacy layers.
type digestMD5 struct {
	user, password string
	uri, cnonce    string

	step    int
	rspauth string // what the server has to answer
}

// String names the mechanism and the user.
func (m *digestMD5) String() string { return fmt.Sprintf("DIGEST-MD5 as %q", m.user) }

// Step sends an empty token, as the server has the first word in this mechanism,
// answers the challenge, and checks the server's proof.
func (m *digestMD5) Step(challenge []byte) ([]byte, bool, error) {
	m.step++
	switch m.step {
	case 1:
		return []byte{}, false, nil
	case 2:
		c, err := parseChallenge(challenge)
		if err != nil {
			return nil, false, fmt.Errorf("challenge: %w", err)
		}
		answer, err := m.answer(c)
		return answer, false, err
	}
	fields, err := parseDirectives(string(challenge))
	if err != nil {
		return nil, false, fmt.Errorf("server's proof: %w", err)
	}
	got := ""
	for _, f := range fields {
		if f.name == "rspauth" {
			got = f.value
		}
	}
	if subtle.ConstantTimeCompare([]byte(got), []byte(m.rspauth)) != 1 {
		return nil, false, errors.New("the server did not prove that it knows the password: it may be somebody else's")
	}
	return nil, true, nil
}

// answer is the digest-response: RFC 2831 section 2.1.2.
func (m *digestMD5) answer(c digestChallenge) ([]byte, error) {
	user := m.user
	if !c.utf8 {
		latin, ok := latin1(m.user)
		if !ok {
			return nil, errors.New("the server takes no UTF-8, and the user name has letters beyond ISO 8859-1")
		}
		user = latin
	}
	a1, err := m.secret(c)
	if err != nil {
		return nil, err
	}
	m.rspauth = m.proof(a1, c.nonce, "")

	var b strings.Builder
	if c.utf8 {
		b.WriteString("charset=utf-8,")
	}
	fmt.Fprintf(&b, "username=%s,", quote(user))
	if c.hasRealm {
		fmt.Fprintf(&b, "realm=%s,", quote(c.realm))
	}
	fmt.Fprintf(&b, "nonce=%s,nc=00000001,cnonce=%s,digest-uri=%s,response=%s,qop=auth",
		quote(c.nonce), quote(m.cnonce), quote(m.uri), m.proof(a1, c.nonce, "AUTHENTICATE"))
	return []byte(b.String()), nil
}

// secret is HEX(H(A1)) of RFC 2831 section 2.1.2.1. Names and passwords that can
// be written in ISO 8859-1 are hashed in it, even if UTF-8 was agreed on.
func (m *digestMD5) secret(c digestChallenge) (string, error) {
	hashed := func(s string) string {
		if l, ok := latin1(s); ok {
			return l
		}
		return s
	}
	password := hashed(m.password)
	if _, ok := latin1(m.password); !ok && !c.utf8 {
		return "", errors.New("the server takes no UTF-8, and the password has letters beyond ISO 8859-1")
	}
	realm := c.realm
	if c.utf8 {
		realm = hashed(realm)
	}
	inner := md5.Sum([]byte(hashed(m.user) + ":" + realm + ":" + password))
	return hexMD5(string(inner[:]) + ":" + c.nonce + ":" + m.cnonce), nil
}

// proof is the response-value of the client, whose method is AUTHENTICATE, or of
// the server, which has none.
func (m *digestMD5) proof(a1, nonce, method string) string {
	return hexMD5(a1 + ":" + nonce + ":00000001:" + m.cnonce + ":auth:" + hexMD5(method+":"+m.uri))
}

func hexMD5(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// latin1 returns s in ISO 8859-1, if it can be written so.
func latin1(s string) (string, bool) {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return "", false
		}
		b = append(b, byte(r))
	}
	return string(b), true
}

// quote returns s as a quoted-string.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// digestChallenge is what matters of a digest-challenge.
type digestChallenge struct {
	realm    string // the first, if the server offers several
	hasRealm bool
	nonce    string
	utf8     bool
}

// singleDirectives are those that a challenge may have at most once. There may be
// several realms, and anything that the RFC does not know.
var singleDirectives = []string{"nonce", "qop", "stale", "maxbuf", "charset", "algorithm", "cipher"}

// parseChallenge reads a digest-challenge: RFC 2831 section 2.1.1.
func parseChallenge(b []byte) (c digestChallenge, err error) {
	if len(b) > mostChallenge {
		return c, fmt.Errorf("%d bytes, more than %d", len(b), mostChallenge)
	}
	fields, err := parseDirectives(string(b))
	if err != nil {
		return c, err
	}
	seen := make(map[string]bool)
	qop := "auth"
	for _, f := range fields {
		if seen[f.name] && slices.Contains(singleDirectives, f.name) {
			return c, fmt.Errorf("%s twice", f.name)
		}
		seen[f.name] = true
		switch f.name {
		case "realm":
			if !c.hasRealm {
				c.realm, c.hasRealm = f.value, true
			}
		case "nonce":
			c.nonce = f.value
		case "qop":
			qop = f.value
		case "charset":
			if !strings.EqualFold(f.value, "utf-8") {
				return c, fmt.Errorf("charset %q, where only utf-8 is defined", f.value)
			}
			c.utf8 = true
		case "algorithm":
			if !strings.EqualFold(f.value, "md5-sess") {
				return c, fmt.Errorf("algorithm %q, where only md5-sess is defined", f.value)
			}
		}
	}
	switch {
	case c.nonce == "":
		return c, errors.New("no nonce")
	case !seen["algorithm"]:
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

// directive is one name=value of a challenge.
type directive struct{ name, value string }

// parseDirectives reads a list of directives with commas between them, white
// space around them, and values that are tokens or quoted strings. Empty ones
// count for nothing. Names come back in lower case.
func parseDirectives(s string) ([]directive, error) {
	const space = " \t\r\n"
	var list []directive
	for {
		s = strings.TrimLeft(s, space+",")
		if s == "" {
			return list, nil
		}
		name, rest, ok := strings.Cut(s, "=")
		name = strings.TrimRight(name, space)
		if !ok || name == "" || strings.ContainsAny(name, space+`",`) {
			return nil, fmt.Errorf("%.40q has no name=value", s)
		}
		value, rest, err := parseDirectiveValue(strings.TrimLeft(rest, space))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, directive{strings.ToLower(name), value})
		if s = strings.TrimLeft(rest, space); s != "" && s[0] != ',' {
			return nil, fmt.Errorf("%s: %.40q follows its value", name, s)
		}
	}
}

// parseDirectiveValue reads a token or a quoted string, and returns what follows.
func parseDirectiveValue(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, ", \t\r\n\"")
		if end < 0 {
			end = len(s)
		}
		if end == 0 {
			return "", "", errors.New("no value")
		}
		return s[:end], s[end:], nil
	}
	var b []byte
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return string(b), s[i+1:], nil
		case '\\':
			if i++; i == len(s) {
				return "", "", errors.New("no closing quote")
			}
		}
		b = append(b, s[i])
	}
	return "", "", errors.New("no closing quote")
}
