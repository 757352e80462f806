package sasl

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/zkd-project/zkd/internal/digestmd5"
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
	fields, err := digestmd5.ParseDirectives(string(challenge))
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
func (m *digestMD5) answer(c digestChallenge) ([]byte, error) {
	t := digestmd5.Terms{User: m.user, Realm: c.realm, Nonce: c.nonce, Cnonce: m.cnonce, URI: m.uri}
	user := m.user
	if !c.utf8 {
		var ok bool
		if user, ok = digestmd5.Latin1(m.user); !ok {
			return nil, errors.New("the server takes no UTF-8, and the user name has letters beyond ISO 8859-1")
		}
		if _, ok = digestmd5.Latin1(m.password); !ok {
			return nil, errors.New("the server takes no UTF-8, and the password has letters beyond ISO 8859-1")
		}
		t.Realm = digestmd5.FromLatin1(c.realm)
	}
	secret := t.Secret(m.password)
	m.rspauth = t.ServerProof(secret)

	var b strings.Builder
	if c.utf8 {
		b.WriteString("charset=utf-8,")
	}
	fmt.Fprintf(&b, "username=%s,", digestmd5.Quote(user))
	if c.hasRealm {
		fmt.Fprintf(&b, "realm=%s,", digestmd5.Quote(c.realm))
	}
	fmt.Fprintf(&b, "nonce=%s,nc=00000001,cnonce=%s,digest-uri=%s,response=%s,qop=auth",
		digestmd5.Quote(c.nonce), digestmd5.Quote(m.cnonce), digestmd5.Quote(m.uri), t.ClientProof(secret))
	return []byte(b.String()), nil
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
	fields, err := digestmd5.ParseDirectives(string(b), singleDirectives...)
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
