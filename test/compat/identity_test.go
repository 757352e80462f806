//go:build compat

package compat

import (
	"bufio"
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/zkd-project/zkd/client"
)

const (
	apacheAuth = "org.apache.zookeeper.server.auth."
	bobID      = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=" // of bob:pw
)

// TestIdentities39 compares the schemes x509 and ensemble with those of Apache's server:
// what an ACL may name, what auth packets do, and what getACL hides from whom.
func TestIdentities39(t *testing.T) {
	p := startPair(t, apache39, config{props: map[string]string{
		"zookeeper.authProvider.1":   apacheAuth + "X509AuthenticationProvider",
		"zookeeper.authProvider.2":   apacheAuth + "EnsembleAuthenticationProvider",
		"zookeeper.ensembleAuthName": "blue, green",
	}})
	names := validNames(t)
	reference, subject := p.hold(func(w *world) {
		c := w.connect("A")
		for _, name := range names {
			c.do(createACL(opCreate, "/named", nil, []acl{{31, "x509", name}, {31, "world", "anyone"}}, 0), byPath(opGetACL, "/named"), del("/named", -1))
		}
		c.do(auth("digest", "bob:pw"))
		c.do(createACL(opCreate, "/r", nil, []acl{{15, "digest", bobID}, {16, "world", "anyone"}, {31, "x509", "CN=a:b,O=c"}, {1, "digest", "x:y:"}}, 0))
		c.do(byPath(opGetACL, "/r"), setACL("/r", []acl{{31, "ensemble", "blue"}}, -1))
		b := w.connect("B")
		b.do(byPath(opGetACL, "/r"), get("/r")) // ADMIN without READ
		c.do(setACL("/r", []acl{{14, "digest", bobID}, {1, "world", "anyone"}, {31, "x509", "CN=a:b,O=c"}, {16, "digest", "x:y"}}, -1))
		b.do(byPath(opGetACL, "/r"))
		c.do(byPath(opGetACL, "/r"))
		for _, r := range []request{auth("ensemble", "green"), auth("ensemble", ""), auth("ensemble", " blue"), auth("ensemble", "Blue"), auth("x509", ""), auth("x509", "CN=a")} {
			e := w.connect("E")
			e.do(r)
			if !e.gone {
				e.do(whoAmI(), createACL(opCreate, "/byauth", nil, []acl{{31, "auth", ""}}, 0), closeSession())
			}
		}
	})
	for i := range max(len(reference), len(subject)) {
		if at(reference, i) != at(subject, i) {
			t.Errorf("line %d differs\n%s: %s\n%s: %s", i, p.reference.kind, at(reference, i), p.subject.kind, at(subject, i))
			break
		}
	}
	summary(t, t.Name(), len(reference), 0)
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// validNames are distinguished names, in many spellings, and what is none.
func validNames(t *testing.T) (names []string) {
	t.Helper()
	f, err := os.Open("../../server/auth/certid/testdata/valid.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		_, quoted, _ := strings.Cut(in.Text(), "\t")
		name, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// tokenServer starts a server of zkd that takes tokens, and returns what makes them.
func tokenServer(t *testing.T) (s *server, token func(user string, end time.Duration) string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	marshal := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	keys := filepath.Join(t.TempDir(), "keys.json")
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "1"}}}
	if err := os.WriteFile(keys, marshal(set), 0o600); err != nil {
		t.Fatal(err)
	}
	s = start(t, zkd, config{lines: []string{
		"zkd.jwt.issuer=https://id.example.org", "zkd.jwt.audience=zkd", "zkd.jwt.keys=" + keys, "zkd.jwt.clockSkew=0"}})
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, func(user string, end time.Duration) string {
		signed, err := signer.Sign(marshal(map[string]any{
			"iss": "https://id.example.org", "aud": "zkd", "sub": user, "exp": time.Now().Add(end).Unix()}))
		if err != nil {
			t.Fatal(err)
		}
		compact, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return compact
	}
}

// TestTokens has the clients of others authenticate by tokens: zkCli.sh and so the Java
// client, and kazoo, also on a second connection, on which they repeat a token that is over.
func TestTokens(t *testing.T) {
	needZkCli(t)
	needKazoo(t)
	s, token := tokenServer(t)
	ann, over := token("ann", time.Hour), token("ann", -time.Hour)

	script := "addauth jwt " + over + "\naddauth jwt " + ann + "\ncreate /cli data auth::cdrwa\ngetAcl /cli\nget /cli\nwhoami\nquit\n"
	out, errOut, status := runCli(t, s, []byte(script))
	if status != 0 || !strings.Contains(out, "'jwt,'ann\n: cdrwa") || !strings.Contains(out, "\ndata\n") || !strings.Contains(out, "\njwt: ann\n") {
		t.Errorf("zkCli.sh: exit %d\n%s%s", status, out, errOut)
	}
	out, errOut, _ = runCli(t, s, []byte("get /cli\nquit\n"))
	if !strings.Contains(out+errOut, "Insufficient permission") {
		t.Errorf("zkCli.sh without a token:\n%s%s", out, errOut)
	}
	runProgram(t, python, "python/zkd_token.py", s.addr, over, ann)

	c, err := dialClient(t, s.addr, client.Options{Auth: []client.Auth{{Scheme: "jwt", Data: []byte(over)}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Session().RenewAuth(t.Context(), "jwt", []byte(ann)); err != nil {
		t.Error(err)
	}
	if ids := identities(t, c); !slices.Equal(ids, []string{"ip:127.0.0.1", "jwt:ann"}) {
		t.Errorf("our client is %q", ids)
	}
}
