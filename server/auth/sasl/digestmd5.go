package sasl

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/zkd-project/zkd/internal/digestmd5"
)

const (
	// digestRealm is the name of the server and of its realm, whatever its host is called:
	// so it is in Apache's server, and clients rely on it.
	digestRealm = "zk-sasl-md5"
	digestURI   = "zookeeper/" + digestRealm
	// maxDigestResponse is the longest response, in bytes: RFC 2831 section 2.1.2.
	maxDigestResponse = 4096
)

// digestMD5 is the server of RFC 2831, without integrity and privacy layers. An
// authorization id that the client asks for has no effect, as in Apache's server.
type digestMD5 struct {
	users      []*Users
	nonce      string
	challenged bool
}

func (m *digestMD5) step(token []byte) ([]byte, string, error) {
	if !m.challenged {
		m.challenged = true
		return fmt.Appendf(nil, `realm="%s",nonce="%s",charset=utf-8,algorithm=md5-sess`, digestRealm, m.nonce), "", nil
	}
	r, err := parseDigestResponse(token)
	if err != nil {
		return nil, "", fmt.Errorf("DIGEST-MD5 response: %w", err)
	}
	if r.terms.Nonce != m.nonce {
		return nil, "", errors.New("DIGEST-MD5 response: not to the nonce of this connection")
	}
	password, known := passwordOf(m.users, r.terms.User)
	secret := r.terms.Secret(password)
	if subtle.ConstantTimeCompare([]byte(r.proof), []byte(r.terms.ClientProof(secret))) != 1 || !known {
		return nil, "", fmt.Errorf("DIGEST-MD5 as %.64q: %w", r.terms.User, refusal(known))
	}
	return []byte("rspauth=" + r.terms.ServerProof(secret)), r.terms.User, nil
}

// user returns the name in a response.
func (m *digestMD5) user(token []byte) string {
	if !m.challenged {
		return ""
	}
	r, _ := parseDigestResponse(token)
	return r.terms.User
}

// passwordOf returns the password of a user. That of a user with a verifier of SCRAM is not
// known.
func passwordOf(all []*Users, name string) (string, bool) {
	for _, users := range all {
		if u := users.table[name]; u != nil {
			return u.password, u.plain
		}
	}
	return "", false
}

// refusal returns the reason why a password did not do.
func refusal(known bool) error {
	if known {
		return errPassword
	}
	return errors.New("no such user, or no password that the mechanism could use")
}

// digestResponse is what matters of a digest-response.
type digestResponse struct {
	terms digestmd5.Terms
	proof string
}

// parseDigestResponse reads a digest-response (RFC 2831 section 2.1.2) to a challenge of
// digestRealm. Repeated directives are refused. The nonce count is not looked at, as in
// Apache's server: the proof is for the first use of the nonce.
func parseDigestResponse(token []byte) (r digestResponse, err error) {
	if len(token) > maxDigestResponse {
		return r, fmt.Errorf("%d bytes, more than %d", len(token), maxDigestResponse)
	}
	fields, err := digestmd5.ParseDirectives(string(token),
		"username", "realm", "nonce", "cnonce", "nc", "qop", "digest-uri", "response", "maxbuf", "charset", "cipher", "authzid")
	if err != nil {
		return r, err
	}
	values := make(map[string]string, len(fields))
	for _, f := range fields {
		values[f.Name] = f.Value
	}
	for _, name := range []string{"username", "realm", "nonce", "cnonce", "digest-uri", "response"} {
		if _, given := values[name]; !given {
			return r, fmt.Errorf("no %s", name)
		}
	}
	decode := digestmd5.FromLatin1
	if charset, given := values["charset"]; given {
		if charset != "utf-8" {
			return r, fmt.Errorf("charset %.20q, where only utf-8 is defined", charset)
		}
		decode = func(s string) string { return s }
	}
	r.proof = values["response"]
	r.terms = digestmd5.Terms{
		User:    decode(values["username"]),
		Realm:   decode(values["realm"]),
		AuthzID: values["authzid"],
		Nonce:   values["nonce"],
		Cnonce:  values["cnonce"],
		URI:     values["digest-uri"],
	}
	qop, given := values["qop"]
	switch {
	case r.terms.User == "":
		return r, errors.New("the user name is empty")
	case !utf8.ValidString(r.terms.User):
		return r, errors.New("the user name is not UTF-8")
	case r.terms.Realm != digestRealm:
		return r, fmt.Errorf("realm %.64q, want %s", r.terms.Realm, digestRealm)
	case given && qop != "auth":
		return r, fmt.Errorf("qop %.20q, want auth", qop)
	case !strings.EqualFold(r.terms.URI, digestURI):
		return r, fmt.Errorf("digest-uri %.64q, want %s", r.terms.URI, digestURI)
	}
	return r, nil
}
