//go:build compat

package compat

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/digestmd5"
	"github.com/zkd-project/zkd/jute"
)

// saslServer starts a server that knows bob, and some whose names and passwords are not
// plain letters.
func saslServer(t *testing.T, k kind, props map[string]string) *server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jaas.conf")
	const jaas = `Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_bob="secret"
  user_admin="topsecret"
  user_super="supersecret"
  "user_renée"="pässwort"
  "user_Жук"="пароль"
  "user_ann@EXAMPLE.COM"="x"
  "user_zk/host@EXAMPLE.COM"="x"
  "user_a/b"="x"
  "user_a@b@c"="x"
  "user_void"=""
  "user_a\"b\\c"="q\"r\\s";
};
`
	if err := os.WriteFile(file, []byte(jaas), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"java.security.auth.login.config": file,
		"zookeeper.authProvider.sasl":     "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
		"zookeeper.superUser":             "admin",
	}
	for k, v := range props {
		all[k] = v
	}
	return start(t, k, config{props: all})
}

// saslConn is a connection with a session that sends what a test wants.
type saslConn struct {
	net.Conn
	xid int32
}

func dialSASL(t *testing.T, srv *server) *saslConn {
	t.Helper()
	nc, err := net.Dial("tcp", srv.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(startDeadline)) // the reads tell
	r := jute.ConnectRequest{TimeoutMs: 30_000, Password: make([]byte, jute.PasswordLen)}
	b, mark := jute.BeginFrame(nil)
	if _, err := nc.Write(jute.EndFrame(r.Append(b), mark)); err != nil {
		t.Fatal(err)
	}
	c := &saslConn{Conn: nc}
	if _, err := c.frame(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *saslConn) frame() ([]byte, error) {
	return jute.ReadFrame(c, 64<<20)
}

// call sends a request, and returns the body of its reply, or what there is instead.
func (c *saslConn) call(op jute.OpCode, body interface{ Append([]byte) []byte }) (reply []byte, trouble string) {
	c.xid++
	b, mark := jute.BeginFrame(nil)
	h := jute.RequestHeader{Xid: c.xid, Type: op}
	if _, err := c.Write(jute.EndFrame(body.Append(h.Append(b)), mark)); err != nil {
		return nil, "end"
	}
	frame, err := c.frame()
	if err != nil {
		return nil, "end"
	}
	d := jute.NewDecoder(frame)
	var r jute.ReplyHeader
	r.Decode(&d)
	switch {
	case d.Err() != nil || r.Xid != c.xid:
		return nil, fmt.Sprintf("reply % x", frame)
	case r.Err != 0:
		return nil, fmt.Sprintf("code %d zxid %d body %x", r.Err, r.Zxid, d.Rest())
	}
	return d.Rest(), ""
}

// say sends a token and tells what comes, with nonces and proofs replaced by words.
func (c *saslConn) say(token string) (said, nonce string) {
	body, trouble := c.call(jute.OpSASL, &jute.SASLToken{Token: []byte(token)})
	if trouble != "" {
		return trouble, ""
	}
	d := jute.NewDecoder(body)
	reply := d.Buffer()
	if reply == nil {
		return "null", ""
	}
	fields, err := digestmd5.ParseDirectives(string(reply))
	if err != nil {
		return fmt.Sprintf("token %q", reply), ""
	}
	said = "token " + string(reply)
	for _, f := range fields {
		switch f.Name {
		case "nonce":
			nonce = f.Value
			said = strings.ReplaceAll(said, f.Value, "NONCE")
		case "rspauth":
			said = strings.ReplaceAll(said, f.Value, "PROOF")
		}
	}
	return said, nonce
}

// identities tells what whoAmI shows, or what comes instead.
func (c *saslConn) identities() string {
	body, trouble := c.call(jute.OpWhoAmI, empty{})
	if trouble != "" {
		return trouble
	}
	d := jute.NewDecoder(body)
	var r jute.WhoAmIResponse
	r.Decode(&d)
	var ids []string
	for _, id := range r.Clients {
		ids = append(ids, id.Scheme+":"+id.User)
	}
	slices.Sort(ids) // Apache's have no order
	return strings.Join(ids, " ")
}

type empty struct{}

func (empty) Append(b []byte) []byte { return b }

// digestCase is a login with DIGEST-MD5 that deviates from a good one.
type digestCase struct {
	name           string
	user, password string // bob, secret
	terms          func(*digestmd5.Terms)
	edit           []string // pairs: old, new
	first          string   // the first token
	then           []string // further tokens; "again" is the response
	differs        bool     // on purpose: sasl-strict in docs/compat.md
}

var digestCases = []digestCase{
	{name: "good"},
	{name: "wrong password", password: "wrong"},
	{name: "no such user", user: "nobody"},
	{name: "other case", user: "Bob"},
	{name: "super user", user: "admin", password: "topsecret"},
	{name: "super", user: "super", password: "supersecret"},
	{name: "empty password", user: "void", password: ""},
	{name: "realm in the name", user: "ann@EXAMPLE.COM", password: "x"},
	{name: "host and realm in the name", user: "zk/host@EXAMPLE.COM", password: "x"},
	{name: "slash in the name", user: "a/b", password: "x"},
	{name: "no principal", differs: true, user: "a@b@c", password: "x"},
	{name: "UTF-8", user: "Жук", password: "пароль", edit: []string{"username", "charset=utf-8,username"}},
	{name: "UTF-8 that is ISO 8859-1", user: "renée", password: "pässwort", edit: []string{"username", "charset=utf-8,username"}},
	{name: "ISO 8859-1", differs: true, user: "renée", password: "pässwort", edit: []string{"é", "\xe9"}},
	{name: "another charset", edit: []string{"username", "charset=latin1,username"}},
	{name: "charset in capitals", edit: []string{"username", "charset=UTF-8,username"}},
	{name: "no qop", edit: []string{",qop=auth", ""}},
	{name: "quoted qop", edit: []string{"qop=auth", `qop="auth"`}},
	{name: "qop in capitals", edit: []string{"qop=auth", `qop=AUTH`}},
	{name: "another qop", edit: []string{"qop=auth", "qop=auth-int"}},
	{name: "names in capitals", edit: []string{"username", "USERNAME"}},
	{name: "unknown directive", edit: []string{"username", "x=1,username"}},
	{name: "spaces", edit: []string{",", " , "}},
	{name: "empty directives", edit: []string{",", ",,"}},
	{name: "no user", edit: []string{`username="bob",`, ""}},
	{name: "empty user", differs: true, edit: []string{`username="bob"`, `username=""`}},
	{name: "two users", edit: []string{`username="bob"`, `username="bob",username="bob"`}},
	{name: "no realm", edit: []string{`realm="zk-sasl-md5",`, ""}},
	{name: "another realm", terms: func(t *digestmd5.Terms) { t.Realm = "EXAMPLE.COM" }},
	{name: "another nonce", terms: func(t *digestmd5.Terms) { t.Nonce += "x" }},
	{name: "no nonce", edit: []string{"nonce=", "x="}},
	{name: "no cnonce", edit: []string{`cnonce="c",`, ""}},
	{name: "empty cnonce", terms: func(t *digestmd5.Terms) { t.Cnonce = "" }},
	{name: "no nc", edit: []string{"nc=00000001,", ""}},
	{name: "short nc", edit: []string{"nc=00000001", "nc=1"}},
	{name: "nc 2", edit: []string{"nc=00000001", "nc=00000002"}},
	{name: "nc is no number", edit: []string{"nc=00000001", "nc=x"}},
	{name: "no digest-uri", edit: []string{`digest-uri="zookeeper/zk-sasl-md5",`, ""}},
	{name: "another service", terms: func(t *digestmd5.Terms) { t.URI = "hbase/zk-sasl-md5" }},
	{name: "another host", terms: func(t *digestmd5.Terms) { t.URI = "zookeeper/zk1" }},
	{name: "service in capitals", terms: func(t *digestmd5.Terms) { t.URI = "ZooKeeper/ZK-sasl-md5" }},
	{name: "service with a name", terms: func(t *digestmd5.Terms) { t.URI = "zookeeper/zk-sasl-md5/x" }},
	{name: "no response", edit: []string{"response=", "x="}},
	{name: "response in capitals", edit: []string{"response=", "response=A"}},
	{name: "authzid", terms: func(t *digestmd5.Terms) { t.AuthzID = "admin" }},
	{name: "authzid of the user", terms: func(t *digestmd5.Terms) { t.AuthzID = "bob" }},
	{name: "authzid without proof", edit: []string{"qop=auth", `qop=auth,authzid="admin"`}},
	{name: "no list", edit: []string{"username=", "username"}},
	{name: "too long", edit: []string{"username", "x=" + strings.Repeat("x", 4096) + ",username"}},
	{name: "empty response", edit: nil, then: []string{""}},
	{name: "first token is not empty", differs: true, first: "x"},
	{name: "the response again", then: []string{"again"}},
	{name: "a second login", then: []string{"", "again"}},
}

// run logs in as the case says, and tells what came.
func (c digestCase) run(t *testing.T, srv *server) string {
	t.Helper()
	conn := dialSASL(t, srv)
	var said []string
	first, nonce := conn.say(c.first)
	said = append(said, first)
	terms := digestmd5.Terms{User: "bob", Realm: "zk-sasl-md5", Nonce: nonce, Cnonce: "c", URI: "zookeeper/zk-sasl-md5"}
	password := "secret"
	if c.user != "" {
		terms.User = c.user
		password = "secret"
	}
	if c.password != "" || c.user == "void" {
		password = c.password
	}
	if c.terms != nil {
		c.terms(&terms)
	}
	response := fmt.Sprintf(`username=%s,realm="%s",nonce="%s",nc=00000001,cnonce="%s",digest-uri="%s",response=%s,qop=auth`,
		digestmd5.Quote(terms.User), terms.Realm, terms.Nonce, terms.Cnonce, terms.URI, terms.ClientProof(terms.Secret(password)))
	if terms.AuthzID != "" {
		response += `,authzid="` + terms.AuthzID + `"`
	}
	response = strings.NewReplacer(c.edit...).Replace(response)
	tokens := []string{response}
	if c.first != "" {
		tokens = nil
	}
	for _, token := range append(tokens, c.then...) {
		if token == "again" {
			token = response
		}
		next, _ := conn.say(token)
		said = append(said, next)
	}
	return strings.Join(append(said, conn.identities()), " | ")
}

// saslSettings are the configurations that differ in how a failed login is answered.
var saslSettings = map[string]map[string]string{
	"plain":    nil,
	"required": {"zookeeper.sessionRequireClientSASLAuth": "true"},
	"enforced": {"zookeeper.enforce.auth.enabled": "true", "zookeeper.enforce.auth.schemes": "sasl"},
	"digest":   {"zookeeper.enforce.auth.enabled": "true", "zookeeper.enforce.auth.schemes": "digest"},
	"allowed":  {"zookeeper.allowSaslFailedClients": "true"},
}

// TestSASLTokens39 compares the answers to good and bad logins by DIGEST-MD5, token by token.
func TestSASLTokens39(t *testing.T) {
	needReference(t, apache39)
	for name, props := range saslSettings {
		t.Run(name, func(t *testing.T) {
			reference, subject := saslServer(t, apache39, props), saslServer(t, target(t), props)
			for _, c := range digestCases {
				want, got := c.run(t, reference), c.run(t, subject)
				if differs := c.differs && subject.kind == zkd; (got != want) != differs {
					t.Errorf("%s: a difference is expected: %v\n%s has %s\n%s has %s", c.name, differs, reference.kind, want, subject.kind, got)
				}
			}
		})
	}
}

// kazooLogins logs in as each pair of arguments says, and prints what became of it.
const kazooLogins = `
import logging, sys
from kazoo.client import KazooClient
from kazoo.protocol.states import KeeperState
from kazoo.security import make_acl
logging.disable(logging.CRITICAL)

class Client(KazooClient):
    refused = False
    def _session_callback(self, state):
        self.refused = self.refused or state == KeeperState.AUTH_FAILED
        super()._session_callback(state)

for login in sys.argv[2:]:
    user, _, password = login.partition(":")
    options = {"mechanism": "DIGEST-MD5", "username": user, "password": password} if user else None
    zk = Client(sys.argv[1], sasl_options=options, connection_retry={"max_tries": 0}, command_retry={"max_tries": 0})
    try:
        zk.start(timeout=20)
        zk.create("/kazoo", b"x", acl=[make_acl("sasl", user or "bob", all=True)])
        print(login, zk.get("/kazoo")[0])
    except Exception as e:
        # Of a login that is refused start may see the connection before it, or only its end: then
        # it raises a time-out at once.
        print(login, "AuthFailedError" if zk.refused else type(e).__name__)
    zk.stop()
    zk.close()
`

// TestSASLClients logs in with kazoo and zkCli.sh, with a good and a wrong password and
// without a login. They must print the same with Apache's server and the target.
func TestSASLClients(t *testing.T) {
	t.Parallel()
	needZkCli(t)
	require(t, need{python, "python3"}, need{"/usr/lib/python3/dist-packages/puresasl", "python3-pure-sasl"})
	// kazoo's thread dies of the code with which required logins are refused.
	for name, logins := range map[string][]string{"plain": {"bob:secret", "bob:wrong", "nobody:x", ":"}, "required": {"bob:secret"}} {
		t.Run(name, func(t *testing.T) {
			var said []string
			for _, k := range []kind{apache, target(t)} {
				srv := saslServer(t, k, saslSettings[name])
				said = append(said, kazooSASL(t, srv, logins...)+cliSASL(t, srv, "bob", "secret")+cliSASL(t, srv, "bob", "wrong")+cliSASL(t, srv, "", ""))
			}
			if said[0] != said[1] {
				t.Errorf("apache:\n%s\n%s:\n%s", said[0], target(t), said[1])
			}
			for _, want := range []string{"bob:secret b'x'", "bob:wrong AuthFailed", "'sasl,'bob"} {
				if name == "plain" && !strings.Contains(said[0], want) {
					t.Errorf("no %q in:\n%s", want, said[0])
				}
			}
		})
	}
}

// TestSASLClients39 is TestSASLClients with the client of 3.9, on its server and on the target.
func TestSASLClients39(t *testing.T) {
	t.Parallel()
	needReference(t, apache39)
	var said []string
	for _, k := range []kind{apache39, target(t)} {
		srv := saslServer(t, k, nil)
		said = append(said, cliSASL39(t, srv, "bob", "secret")+cliSASL39(t, srv, "bob", "wrong")+kazooSASL(t, srv, "bob:secret", "bob:wrong"))
	}
	if said[0] != said[1] || !strings.Contains(said[0], "'sasl,'bob") || !strings.Contains(said[0], "bob:secret b'x'") {
		t.Errorf("%s:\n%s\n%s:\n%s", apache39, said[0], target(t), said[1])
	}
}

func kazooSASL(t *testing.T, srv *server, logins ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), zkCliDeadline)
	defer cancel()
	out, err := exec.CommandContext(ctx, python, append([]string{"-c", kazooLogins, srv.addr}, logins...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kazoo: %v\n%s", err, out)
	}
	return string(out)
}

// cliSASL creates and reads a node with zkCli.sh, and returns what is worth comparing.
func cliSASL(t *testing.T, srv *server, user, password string) string {
	t.Helper()
	return runSASL(t, user, password, zkCli, "-server", srv.addr)
}

// cliSASL39 is cliSASL with the client of 3.9, which has DIGEST-MD5 only with fips-mode=false.
func cliSASL39(t *testing.T, srv *server, user, password string) string {
	t.Helper()
	return runSASL(t, user, password, "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-Dzookeeper.fips-mode=false", "-cp", classPath(apache39), "org.apache.zookeeper.ZooKeeperMain", "-server", srv.addr)
}

func runSASL(t *testing.T, user, password, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), zkCliDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	// The last event of the login is awaited. Requests before it may find the connection lost, those after it can't.
	last := "state:SyncConnected"
	switch {
	case password == "wrong":
		last = "state:AuthFailed"
	case user != "":
		last = "state:SaslAuthenticated"
	}
	out := typed{"create /cli x sasl:bob:cdrwa\ngetAcl /cli\nget /cli\ndelete /cli\n", last, "get /cli\nquit\n"}.into(ctx, cmd)
	cmd.Stderr = out
	if user != "" {
		file := filepath.Join(t.TempDir(), "client.conf")
		const form = "Client { org.apache.zookeeper.server.auth.DigestLoginModule required username=%q password=%q; };\n"
		if err := os.WriteFile(file, fmt.Appendf(nil, form, user, password), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(os.Environ(), "JVMFLAGS=-Djava.security.auth.login.config="+file, "CLIENT_JVMFLAGS=-Djava.security.auth.login.config="+file,
			"JAVA_TOOL_OPTIONS=-Djava.security.auth.login.config="+file)
	}
	err := cmd.Run()
	results, events := splitEvents(out.String())
	said := fmt.Sprintf("zkCli.sh as %q: %v\n", user, err)
	say := func(line string) {
		// A client that is turned away may connect again before it quits, and the thread that prints the
		// end of the session may be too late.
		for _, again := range []string{"ConnectionLoss", "state:Closed", "state:Disconnected"} {
			if strings.Contains(line, again) {
				return
			}
		}
		if !strings.Contains(said, line) {
			said += line + "\n"
		}
	}
	for _, line := range splitLines(results) {
		if !strings.HasPrefix(line, "Picked up JAVA_TOOL_OPTIONS") && (strings.Contains(line, "/cli") || strings.HasPrefix(line, "'") || strings.HasPrefix(line, ":")) {
			say(line)
		}
	}
	for _, event := range events {
		say(event)
	}
	return said
}
