package server

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/client/sasl"
	"github.com/zkd-project/zkd/jute"
)

// saslLines are the settings of a server on which bob and the super user admin can log in.
func saslLines(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jaas.conf")
	const jaas = `Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="secret" user_admin="topsecret"; };`
	if err := os.WriteFile(file, []byte(jaas), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"java.security.auth.login.config=" + file, "superUser=admin"}
}

func startSASL(t *testing.T, lines ...string) *testServer {
	t.Helper()
	return startServer(t, append(lines, saslLines(t)...)...)
}

// login logs in with DIGEST-MD5. It returns the server's last reply.
func (c *client) login(user, password string) reply {
	c.t.Helper()
	m, err := sasl.DigestMD5(user, password)("zk1")
	if err != nil {
		c.t.Fatal(err)
	}
	var challenge []byte
	for last := (reply{}); ; {
		token, done, err := m.Step(challenge)
		switch {
		case err != nil:
			c.t.Fatal(err)
		case done:
			return last
		}
		last = c.call(jute.OpSASL, &jute.SASLToken{Token: token})
		if last.Err != 0 || string(last.body) == nullString {
			return last
		}
		d := jute.NewDecoder(last.body)
		challenge = d.Buffer()
	}
}

// identities are what whoAmI shows, without the address.
func (c *client) identities() (ids []string) {
	c.t.Helper()
	d := jute.NewDecoder(c.ok(jute.OpWhoAmI, bytesRecord("")).body)
	var r jute.WhoAmIResponse
	if r.Decode(&d); d.Err() != nil {
		c.t.Fatal(d.Err())
	}
	for _, id := range r.Clients {
		if id.Scheme != "ip" {
			ids = append(ids, id.Scheme+":"+id.User)
		}
	}
	return ids
}

// saslACL lets a user of the scheme sasl do everything.
func saslACL(id string) []jute.ACL {
	return []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "sasl", ID: id}}}
}

func TestSASL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSASL(t, "letAnySaslUserDoX=anyone", "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
		bob, admin, stranger := s.connect(t), s.connect(t), s.connect(t)
		if r := bob.login("bob", "secret"); r.Err != 0 || r.Zxid != 0 {
			t.Fatalf("bob: %v", r)
		}
		if r := admin.login("admin", "topsecret"); r.Err != 0 {
			t.Fatalf("admin: %v", r)
		}
		if ids := bob.identities(); !slices.Equal(ids, []string{"sasl:bob"}) {
			t.Errorf("bob is %q", ids)
		}
		if ids := admin.identities(); !slices.Equal(ids, []string{"sasl:admin", "super:"}) {
			t.Errorf("admin is %q", ids)
		}
		bob.ok(jute.OpCreate, &jute.CreateRequest{Path: "/bob", ACL: saslACL("bob")})
		bob.ok(jute.OpCreate, &jute.CreateRequest{Path: "/any", ACL: saslACL("anyone")})
		for name, c := range map[string]*client{"bob": bob, "admin": admin} {
			for _, path := range []string{"/bob", "/any"} {
				if r := c.call(jute.OpGetData, get(path, false)); r.Err != 0 {
					t.Errorf("%s reads %s: %v", name, path, r.Err)
				}
			}
		}
		for _, path := range []string{"/bob", "/any"} {
			if r := stranger.call(jute.OpGetData, get(path, false)); r.Err != jute.ErrNoAuth {
				t.Errorf("a stranger reads %s: %v", path, r.Err)
			}
		}
		if r := bob.call(jute.OpCreate, &jute.CreateRequest{Path: "/bad", ACL: saslACL("a@b@c")}); r.Err != jute.ErrInvalidACL {
			t.Errorf("an ACL with no principal: %v", r.Err)
		}
		resumed := bob.resume(t, 10_000)
		if ids := resumed.identities(); len(ids) > 0 {
			t.Errorf("a session resumed on another connection is %q", ids)
		}
	})
}

// TestSASLRefused is about logins that fail: the answer, and the end of the connection.
func TestSASLRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  jute.Code
		stays bool
	}{
		{"plain", nil, jute.ErrAuthFailed, false},
		{"required", []string{"sessionRequireClientSASLAuth=true"}, jute.ErrSessionClosedRequireSASL, false},
		{"scheme", []string{"requireClientAuthScheme=sasl"}, jute.ErrSessionClosedRequireSASL, false},
		{"enforced", []string{"enforce.auth.enabled=true", "enforce.auth.schemes=sasl,digest"}, jute.ErrSessionClosedRequireSASL, false},
		{"enforced otherwise", []string{"enforce.auth.enabled=true", "enforce.auth.schemes=ip,digest"}, jute.ErrAuthFailed, false},
		{"allowed", []string{"allowSaslFailedClients=true"}, 0, true},
		{"allowed and required", []string{"allowSaslFailedClients=true", "sessionRequireClientSASLAuth=true"}, jute.ErrSessionClosedRequireSASL, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startSASL(t, c.lines...)
				for _, user := range []struct{ name, password string }{{"bob", "wrong"}, {"nobody", "secret"}} {
					cl := s.connect(t)
					if r := cl.login(user.name, user.password); r.Err != c.want || string(r.body) != nullString || r.Zxid != 0 {
						t.Errorf("%s: %v, want code %d and a null token", user.name, r, c.want)
					}
					if !c.stays {
						cl.eof("a login that failed")
						continue
					}
					if ids := cl.identities(); len(ids) > 0 {
						t.Errorf("%s is %q", user.name, ids)
					}
					if r := cl.login("bob", "secret"); r.Err != 0 || string(r.body) != nullString {
						t.Errorf("%s begins another exchange: %v", user.name, r)
					}
				}
			})
		})
	}
}

// TestSASLRequired is about clients that do not log in, or only later.
func TestSASLRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSASL(t, "sessionRequireClientSASLAuth=true")
		for _, op := range []jute.OpCode{jute.OpGetData, jute.OpPing, jute.OpCloseSession} {
			c := s.connect(t)
			c.auth("a:b")
			if r := c.call(op, get("/", false)); r.Err != jute.ErrSessionClosedRequireSASL {
				t.Errorf("%v without a login: %v", op, r)
			}
			c.eof("no login")
		}
		c := s.connect(t)
		c.ok(jute.OpSASL, &jute.SASLToken{Token: []byte{}}) // the first half
		if r := c.call(jute.OpGetData, get("/", false)); r.Err != jute.ErrSessionClosedRequireSASL {
			t.Errorf("half a login: %v", r)
		}
		c.eof("half a login")
		c = s.connect(t)
		c.login("bob", "secret")
		c.create("/a", "")
	})
}

// TestSASLAgain is about a second login on a connection, which Apache's server refuses, too.
func TestSASLAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSASL(t)
		c := s.connect(t)
		c.login("bob", "secret")
		if r := c.login("admin", "topsecret"); r.Err != jute.ErrAuthFailed {
			t.Errorf("a second login: %v", r)
		}
		c.eof("a second login")
	})
}

// TestSASLTokens is about tokens of clients that want to do harm.
func TestSASLTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSASL(t)
		for _, token := range []string{"x", "\x60\x82", "PLAIN\x00\x00bob\x00secret", string(make([]byte, 1<<19))} {
			c := s.connect(t)
			if r := c.call(jute.OpSASL, &jute.SASLToken{Token: []byte(token)}); r.Err != jute.ErrAuthFailed || string(r.body) != nullString {
				t.Errorf("%.20q: %v", token, r)
			}
			c.eof("no token of ours")
		}
	})
}

// TestSASLFlood has many clients stop in the middle of a login: others are served.
func TestSASLFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSASL(t)
		var held []net.Conn
		for range 500 {
			c := s.connect(t)
			c.ok(jute.OpSASL, &jute.SASLToken{Token: []byte{}})
			held = append(held, c.nc)
		}
		c := s.connect(t)
		if r := c.login("bob", "secret"); r.Err != 0 {
			t.Errorf("login beside %d halves: %v", len(held), r)
		}
		c.create("/a", "")
	})
}

// TestSASLGuessesByName guesses one user's password from a hundred addresses: together they get the rate of the
// name, and who has logged in from his address does not wait.
func TestSASLGuessesByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, saslLines(t)...)
		good := func() time.Duration {
			began := time.Now()
			if r := s.dialFrom(t, "10.0.0.1").login("bob", "secret"); r.Err != 0 {
				t.Fatal(r)
			}
			return time.Since(began)
		}
		good()
		began := time.Now()
		for n := range 100 {
			if r := s.dialFrom(t, fmt.Sprint("10.6.7.", n)).login("bob", fmt.Sprint(n)); r.Err == 0 {
				t.Fatal("a wrong password")
			}
		}
		if took := time.Since(began); took < 2*time.Second || took > 4*time.Second {
			t.Errorf("100 guesses took %v, want 2.5 s", took)
		}
		if took := good(); took > 0 {
			t.Errorf("bob waits %v", took)
		}
	})
}
