package server

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
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

// TestFetchKeys tries answers of a web server.
func TestFetchKeys(t *testing.T) {
	var web, plain *httptest.Server
	handler := http.NewServeMux()
	handler.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{}")) })
	handler.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 2<<20)) })
	handler.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/keys", http.StatusFound) })
	handler.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	handler.HandleFunc("/plain", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL+"/keys", http.StatusFound) })
	web, plain = httptest.NewUnstartedServer(handler), httptest.NewServer(handler)
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	defer web.Close()
	defer plain.Close()
	for path, want := range map[string]string{
		"/keys":  "",
		"/moved": "",
		"/large": "larger than 1048576 bytes",
		"/none":  "404 Not Found",
		"/loop":  "only three redirections",
		"/plain": "to https, are followed",
	} {
		client := newKeyClient()
		client.Transport.(*http.Transport).TLSClientConfig = web.Client().Transport.(*http.Transport).TLSClientConfig
		text, err := fetchKeys(t.Context(), client, web.URL+path)
		if want == "" && (err != nil || string(text) != "{}") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %d bytes, %v; want error %q", path, len(text), err, want)
		}
	}
	if _, err := fetchKeys(t.Context(), newKeyClient(), web.URL+"/keys"); err == nil {
		t.Error("a server with an unknown authority was believed")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fetchKeys(over, newKeyClient(), web.URL+"/keys"); err == nil {
		t.Error("a fetch that was canceled succeeded")
	}
}

// TestDiscoverKeys asks issuers where their keys are.
func TestDiscoverKeys(t *testing.T) {
	handler := http.NewServeMux()
	web := httptest.NewTLSServer(handler)
	defer web.Close()
	handler.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{}")) })
	about := func(path, text string) {
		handler.HandleFunc(path+"/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(strings.ReplaceAll(text, "WEB", web.URL)))
		})
	}
	about("", `{"issuer": "WEB", "jwks_uri": "WEB/keys"}`)
	about("/tenant", `{"issuer": "WEB/tenant/", "jwks_uri": "WEB/keys"}`)
	about("/other", `{"issuer": "WEB", "jwks_uri": "WEB/keys"}`)
	about("/plain", `{"issuer": "WEB/plain", "jwks_uri": "http://127.0.0.1/keys"}`)
	about("/nowhere", `{"issuer": "WEB/nowhere"}`)
	about("/lost", `{"issuer": "WEB/lost", "jwks_uri": "WEB/nothing"}`)
	about("/page", `<html>`)
	for path, want := range map[string]string{
		"":         "",
		"/tenant/": "",
		"/tenant":  "is about the issuer",
		"/other":   "is about the issuer",
		"/plain":   "does not begin with https",
		"/nowhere": "does not begin with https",
		"/lost":    "404 Not Found",
		"/page":    "invalid character",
		"/none":    "404 Not Found",
	} {
		client := newKeyClient()
		client.Transport.(*http.Transport).TLSClientConfig = web.Client().Transport.(*http.Transport).TLSClientConfig
		text, err := discoverKeys(t.Context(), client, web.URL+path)
		if want == "" && (err != nil || string(text) != "{}") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v; want error %q", path, text, err, want)
		}
	}
}
