package server

import (
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/zkd-project/zkd/jute"
)

// issuer makes tokens.
type issuer struct {
	t       testing.TB
	private ed25519.PrivateKey
	lines   []string // of the configuration of a server that trusts it
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return &issuer{t, private, []string{
		"zkd.jwt.issuer=https://id.example.org", "zkd.jwt.audience=zkd", "zkd.jwt.keys=" + file, "zkd.jwt.clockSkew=0", "zkd.jwt.superUser=root",
		"DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=", // of super:secret
	}}
}

// token returns a token of a user, for this service, that ends after d.
func (i *issuer) token(user string, d time.Duration) string {
	i.t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: i.private, KeyID: "1"}}, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	claims, err := json.Marshal(map[string]any{"iss": "https://id.example.org", "aud": "zkd", "sub": user, "exp": time.Now().Add(d).Unix()})
	if err != nil {
		i.t.Fatal(err)
	}
	signed, err := s.Sign(claims)
	if err != nil {
		i.t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}

// super returns a client that may do everything.
func (s *testServer) super(t testing.TB) *client {
	t.Helper()
	c := s.connect(t)
	if code := c.addAuth("digest", "super:secret"); code != 0 {
		t.Fatal(code)
	}
	return c
}

// whoAmI returns the schemes of a connection's identities.
func (c *client) whoAmI() string {
	c.t.Helper()
	d := jute.NewDecoder(c.ok(jute.OpWhoAmI, nil).body)
	var all []string
	for n := d.Int32(); n > 0; n-- {
		all = append(all, d.String()+":"+d.String())
	}
	return strings.Join(all, " ")
}

func owned(path string, mode jute.CreateMode) *jute.CreateRequest {
	return &jute.CreateRequest{Path: path, Data: []byte("x"), Mode: mode, ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}}
}

// TestTokenEnds checks that a connection loses the identity of its token when that ends, in
// every request and in watch events.
func TestTokenEnds(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, i.lines...)
		c, root := s.connect(t), s.super(t)
		if code := c.addAuth("jwt", i.token("ann", 5*time.Second)); code != 0 {
			t.Fatal(code)
		}
		if got := c.whoAmI(); got != "ip:10.0.0.2 jwt:ann" {
			t.Errorf("identities %s", got)
		}
		c.ok(jute.OpCreate, owned("/n", 0))
		c.ok(jute.OpCreate, owned("/n/e", jute.ModeEphemeral))
		c.ok(jute.OpGetData, get("/n", true))
		c.ok(jute.OpGetChildren, get("/n", true))
		c.ok(jute.OpAddWatch, &jute.AddWatchRequest{Path: "/n", Mode: jute.AddPersistentRecursive})

		root.set("/n", "seen")
		if r := c.must(); r.Xid != jute.XidNotification {
			t.Errorf("got %v, want an event", r)
		}
		c.ok(jute.OpGetData, get("/n", true))
		time.Sleep(5 * time.Second)
		root.set("/n", "not seen") // c has made no request since
		root.ok(jute.OpCreate, &jute.CreateRequest{Path: "/n/child", ACL: []jute.ACL{{ID: jute.ID{Scheme: "jwt", ID: "nobody"}}}})
		synctest.Wait()
		c.quiet("an event for an identity that has ended")

		read := func(op jute.OpCode) *jute.MultiRequest {
			return &jute.MultiRequest{Ops: []jute.MultiOp{{Type: op, Path: "/n"}}}
		}
		for _, r := range []struct {
			op   jute.OpCode
			body record
		}{
			{jute.OpGetData, get("/n", false)},
			{jute.OpGetData, get("/n", true)},
			{jute.OpExists, get("/n", false)},
			{jute.OpGetChildren, get("/n", false)},
			{jute.OpGetChildren2, get("/n", false)},
			{jute.OpGetACL, &jute.PathRequest{Path: "/n"}},
			{jute.OpGetAllChildrenNumber, &jute.PathRequest{Path: "/n"}},
			{jute.OpSetData, set("/n", "y")},
			{jute.OpCreate, owned("/n/x", 0)},
			{jute.OpDelete, del("/n/e")},
			{jute.OpSetACL, &jute.SetACLRequest{Path: "/n", ACL: openACL, Version: -1}},
		} {
			want := jute.ErrNoAuth
			if r.op == jute.OpCreate { // "auth" is nobody
				want = jute.ErrInvalidACL
			}
			if got := c.call(r.op, r.body); got.Err != want && !(r.op == jute.OpCreate && got.Err == jute.ErrNoAuth) {
				t.Errorf("%v: %v, want %v", r.op, got.Err, want)
			}
		}
		for _, op := range []jute.OpCode{jute.OpCheck, jute.OpSetData, jute.OpDelete} {
			r := c.call(jute.OpMulti, &jute.MultiRequest{Ops: []jute.MultiOp{{Type: op, Path: "/n/e", Version: -1}}})
			refused := jute.MultiResult{Type: jute.OpError, Err: jute.ErrNoAuth}
			if !strings.HasPrefix(string(r.body), string(refused.Append(nil))) {
				t.Errorf("%v in a multi: %q", op, r.body)
			}
		}
		for _, op := range []jute.OpCode{jute.OpGetData, jute.OpGetChildren} {
			r := c.call(jute.OpMultiRead, read(op))
			if strings.Contains(string(r.body), "seen") || strings.Contains(string(r.body), "child") {
				t.Errorf("multiRead of %v: %q", op, r.body)
			}
		}
		if got := c.whoAmI(); got != "ip:10.0.0.2" {
			t.Errorf("identities after the end: %s", got)
		}
		if data, _ := root.get("/n"); data != "not seen" {
			t.Errorf("data %q", data)
		}

		if code := c.addAuth("jwt", i.token("ann", 5*time.Second)); code != 0 {
			t.Fatal(code)
		}
		c.ok(jute.OpGetData, get("/n", false))
		time.Sleep(4 * time.Second)
		if code := c.addAuth("jwt", i.token("ann", 5*time.Second)); code != 0 { // renewed
			t.Fatal(code)
		}
		time.Sleep(4 * time.Second)
		c.ok(jute.OpGetData, get("/n", false))
		s.noErrors(t)
	})
}

// TestTokenOfAnotherConnection checks that a session that moves to another connection does
// not take its identities along.
func TestTokenOfAnotherConnection(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, i.lines...)
		c := s.connect(t)
		if code := c.addAuth("jwt", i.token("ann", time.Minute)); code != 0 {
			t.Fatal(code)
		}
		c.ok(jute.OpCreate, owned("/n", 0))
		moved := c.resume(t, 10_000)
		if got := moved.whoAmI(); got != "ip:10.0.0.2" {
			t.Errorf("identities %s", got)
		}
		if r := moved.call(jute.OpGetData, get("/n", false)); r.Err != jute.ErrNoAuth {
			t.Errorf("%v", r.Err)
		}
	})
}

// TestTokenThatIsOver checks that it is accepted without giving an identity: stock clients
// send all their tokens on each connection.
func TestTokenThatIsOver(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, i.lines...)
		old := i.token("ann", time.Second)
		time.Sleep(time.Second)
		c := s.connect(t)
		if code := c.addAuth("jwt", old); code != 0 {
			t.Errorf("%v", code)
		}
		if got := c.whoAmI(); got != "ip:10.0.0.2" {
			t.Errorf("identities %s", got)
		}
		if code := c.addAuth("jwt", i.token("ann", time.Second)); code != 0 || c.whoAmI() != "ip:10.0.0.2 jwt:ann" {
			t.Errorf("a second token: %v", code)
		}
		if code := c.addAuth("jwt", old); code != 0 || c.whoAmI() != "ip:10.0.0.2 jwt:ann" {
			t.Errorf("the old one after it: %v", code)
		}
	})
}

// TestTokenRefused checks that a refused token ends the connection after the reply.
func TestTokenRefused(t *testing.T) {
	i := newIssuer(t)
	evil := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, i.lines...)
		c := s.connect(t)
		if code := c.addAuth("jwt", evil.token("root", time.Minute)); code != jute.ErrAuthFailed {
			t.Errorf("%v", code)
		}
		c.eof("a refused token")
	})
}

// TestTokenOfSuperUser checks that its rights end, too.
func TestTokenOfSuperUser(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, i.lines...)
		c := s.connect(t)
		if code := c.addAuth("jwt", i.token("root", 5*time.Second)); code != 0 {
			t.Fatal(code)
		}
		nobody := []jute.ACL{{ID: jute.ID{Scheme: "jwt", ID: "nobody"}}}
		c.ok(jute.OpCreate, &jute.CreateRequest{Path: "/n", ACL: nobody})
		c.ok(jute.OpGetData, get("/n", false))
		time.Sleep(5 * time.Second)
		if r := c.call(jute.OpGetData, get("/n", false)); r.Err != jute.ErrNoAuth {
			t.Errorf("%v", r.Err)
		}
	})
}

// TestEnforcedToken checks that a client is turned away when its token ends, if the scheme
// is required.
func TestEnforcedToken(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, append(i.lines, "enforce.auth.enabled=true", "enforce.auth.schemes=jwt")...)
		c := s.connect(t)
		if code := c.addAuth("jwt", i.token("ann", 5*time.Second)); code != 0 {
			t.Fatal(code)
		}
		c.create("/n", "")
		time.Sleep(5 * time.Second)
		if r := c.call(jute.OpGetData, get("/n", false)); r.Err != jute.ErrSessionClosedRequireSASL {
			t.Errorf("%v", r.Err)
		}
		c.eof("a token that has ended")
	})
}

// TestStartWithoutKeys checks that a file without keys stops the start, and an address that
// does not answer does not.
func TestStartWithoutKeys(t *testing.T) {
	i := newIssuer(t)
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, []byte(`{"keys":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newTestServer(t, Options{Config: parseConfig(t, t.TempDir(), append(i.lines, "zkd.jwt.keys="+file)...)})
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "zkd.jwt.keys="+file) {
		t.Errorf("start: %v", err)
	}
	startServer(t, append(i.lines, "zkd.jwt.keys=https://127.0.0.1:1/keys")...)
}
