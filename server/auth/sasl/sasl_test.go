package sasl_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientsasl "github.com/zkd-project/zkd/client/sasl"
	clientscram "github.com/zkd-project/zkd/client/sasl/scram"
	"github.com/zkd-project/zkd/internal/digestmd5"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/auth/sasl"
)

func newServer(configure ...func(*sasl.Config)) *sasl.Server {
	cfg := sasl.Config{Users: sasl.NewUsers(map[string]string{
		"bob": "secret", "renée": "pässwort", "Жук": "пароль", `a"b\c`: `q"r\s`, "admin": "x", "void": "", "ann@EXAMPLE.COM": "y",
	})}
	for _, f := range configure {
		f(&cfg)
	}
	return sasl.NewServer(cfg)
}

// login runs the exchange of our client's mechanism with the server.
func login(s *sasl.Server, begin func(string) (clientsasl.Mechanism, error)) (auth.Proof, error) {
	client, err := begin("zk1")
	if err != nil {
		return auth.Proof{}, err
	}
	exchange := s.Begin(false)
	var challenge []byte
	var proof auth.Proof
	for {
		token, done, err := client.Step(challenge)
		switch {
		case err != nil:
			return auth.Proof{}, fmt.Errorf("client: %w", err)
		case done && token == nil:
			return proof, nil
		}
		if challenge, proof, err = exchange.Step(token); err != nil || done {
			return proof, err
		}
	}
}

func idsOf(p auth.Proof) string {
	var ids []string
	for _, id := range p.IDs {
		ids = append(ids, id.Scheme+":"+id.ID)
	}
	return strings.Join(ids, " ")
}

func TestDigestMD5(t *testing.T) {
	s := newServer(func(c *sasl.Config) { c.SuperUsers = []string{"root", "admin"} })
	for _, c := range []struct{ user, password, want string }{
		{"bob", "secret", "sasl:bob"},
		{"renée", "pässwort", "sasl:renée"},
		{"Жук", "пароль", "sasl:Жук"},
		{`a"b\c`, `q"r\s`, `sasl:a"b\c`},
		{"admin", "x", "sasl:admin super:"},
		{"void", "", "sasl:void"},
		{"ann@EXAMPLE.COM", "y", "sasl:ann@EXAMPLE.COM"},
	} {
		proof, err := login(s, clientsasl.DigestMD5(c.user, c.password))
		if err != nil || idsOf(proof) != c.want {
			t.Errorf("%s: %q, %v; want %s", c.user, idsOf(proof), err, c.want)
		}
	}
	for _, c := range []struct{ user, password, want string }{
		{"bob", "Secret", `DIGEST-MD5 as "bob": wrong password`},
		{"bob", "", `DIGEST-MD5 as "bob": wrong password`},
		{"nobody", "", `DIGEST-MD5 as "nobody": no such user, or no password that the mechanism could use`},
		{"Bob", "secret", `DIGEST-MD5 as "Bob": no such user, or no password that the mechanism could use`},
	} {
		if proof, err := login(s, clientsasl.DigestMD5(c.user, c.password)); len(proof.IDs) > 0 || err == nil || err.Error() != c.want {
			t.Errorf("%s, %s: %v, %v; want error %s", c.user, c.password, proof, err, c.want)
		}
	}
}

// response is a digest-response of bob with changes.
func response(nonce string, change ...string) []byte {
	terms := digestmd5.Terms{User: "bob", Realm: "zk-sasl-md5", Nonce: nonce, Cnonce: "c", URI: "zookeeper/zk-sasl-md5"}
	text := fmt.Sprintf(`username="bob",realm="zk-sasl-md5",nonce="%s",nc=00000001,cnonce="c",digest-uri="zookeeper/zk-sasl-md5",response=%s,qop=auth`,
		nonce, terms.ClientProof(terms.Secret("secret")))
	return []byte(strings.NewReplacer(change...).Replace(text))
}

// challenge begins an exchange, and returns it with the nonce.
func challenge(t *testing.T, s *sasl.Server) (*sasl.Exchange, string) {
	t.Helper()
	e := s.Begin(false)
	c, proof, err := e.Step(nil)
	nonce, rest, _ := strings.Cut(strings.TrimPrefix(string(c), `realm="zk-sasl-md5",nonce="`), `"`)
	if err != nil || len(proof.IDs) > 0 || rest != ",charset=utf-8,algorithm=md5-sess" || len(nonce) < 20 {
		t.Fatalf("challenge %s, %v, %v", c, proof, err)
	}
	return e, nonce
}

func TestDigestMD5Responses(t *testing.T) {
	s := newServer()
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{",qop=auth", "", ""},
		{`digest-uri="zookeeper`, `digest-uri="ZOOKEEPER`, "wrong password"}, // it is a part of the proof
		{"username", "USERNAME", ""},
		{",qop", `,maxbuf=65536,x="y",qop`, ""},
		{",qop", ",charset=utf-8,qop", ""},

		{",qop", `,authzid="admin",qop`, "wrong password"}, // a part of the proof, too
		{`username="bob",`, "", "no username"},
		{`username="bob"`, `username=""`, "user name is empty"},
		{`username="bob"`, "charset=utf-8,username=\"\xff\"", "not UTF-8"},
		{`username="bob"`, `username="bob",username="admin"`, "username twice"},
		{`realm="zk-sasl-md5",`, "", "no realm"},
		{`realm="zk-sasl-md5"`, `realm="EXAMPLE.COM"`, `realm "EXAMPLE.COM"`},
		{`nonce="`, `nonce="x`, "not to the nonce of this connection"},
		{"nc=00000001", "nc=00000002", ""},
		{"nc=00000001,", "", ""},
		{`cnonce="c",`, "", "no cnonce"},
		{`cnonce="c"`, `cnonce="d"`, "wrong password"},
		{"zookeeper/zk", "hbase/zk", "digest-uri"},
		{"qop=auth", "qop=auth-conf", "qop"},
		{",qop=auth", ",qop=auth,cipher=rc4,cipher=des", "cipher twice"},
		{"response=", "response=0", "wrong password"},
		{",qop", ",charset=latin1,qop", "charset"},
		{",qop", ",charset=UTF-8,qop", "charset"},
		{",qop", ",x=" + strings.Repeat("x", 4096) + ",qop", "more than 4096"},
		{`username="bob"`, "username", "no name=value"},
	} {
		e, nonce := challenge(t, s)
		reply, proof, err := e.Step(response(nonce, c.old, c.new))
		if c.want == "" {
			if err != nil || idsOf(proof) != "sasl:bob" || !bytes.HasPrefix(reply, []byte("rspauth=")) {
				t.Errorf("%s for %s: %s, %v, %v", c.new, c.old, reply, proof, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || len(proof.IDs) > 0 || reply != nil {
			t.Errorf("%s for %s: %s, %v, %v; want an error with %q", c.new, c.old, reply, proof, err, c.want)
		}
	}
}

// TestOrder is about tokens that come when none may come.
func TestOrder(t *testing.T) {
	s := newServer()
	over := func(e *sasl.Exchange, after string) {
		t.Helper()
		for _, token := range [][]byte{nil, response("x"), []byte("y")} {
			if _, proof, err := e.Step(token); err == nil || len(proof.IDs) > 0 {
				t.Errorf("after %s: token %q gives %v, %v", after, token, proof, err)
			}
		}
	}
	e, nonce := challenge(t, s)
	good := response(nonce)
	if _, _, err := e.Step(good); err != nil {
		t.Fatal(err)
	}
	over(e, "the end")
	if _, proof, err := e.Step(good); err == nil || len(proof.IDs) > 0 {
		t.Error("the response is taken twice")
	}

	e, _ = challenge(t, s)
	if _, _, err := e.Step(good); err == nil {
		t.Error("the response of another connection is taken")
	}
	over(e, "a replayed response")

	e, _ = challenge(t, s)
	if _, _, err := e.Step(nil); err == nil {
		t.Error("an empty response is taken")
	}
	over(e, "an empty response")

	e = s.Begin(false)
	if _, _, err := e.Step(good); err == nil {
		t.Error("a response without a challenge is taken")
	}
	over(e, "a response without a challenge")

	for _, token := range [][]byte{[]byte("NTLM"), {0}, {0x60}, bytes.Repeat([]byte{'a'}, 1<<20)} {
		e = s.Begin(false)
		if _, _, err := e.Step(token); err == nil {
			t.Errorf("%.20q begins a mechanism", token)
		}
		over(e, "no mechanism")
	}
	e = sasl.NewServer(sasl.Config{}).Begin(false)
	if _, _, err := e.Step(nil); err == nil {
		t.Error("DIGEST-MD5 without users")
	}
}

func TestUsersPrintNoPasswords(t *testing.T) {
	users := sasl.NewUsers(map[string]string{"bob": "secret"})
	for _, form := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, v := range []any{users, sasl.Config{Users: users}, &sasl.Config{Users: users}} {
			if text := fmt.Sprintf(form, v); strings.Contains(text, "secret") {
				t.Errorf("%s of %T is %s", form, v, text)
			}
		}
	}
}

func TestProvider(t *testing.T) {
	p := sasl.Provider{EverybodyAs: "readers"}
	for expr, valid := range map[string]bool{
		"bob": true, "zk/host@REALM": true, "bob@REALM": true, "a/b": true, "": true,
		"bob@A@B": false, "zk/a/b@REALM": false, "bob@A/B": false,
	} {
		if p.Valid(expr) != valid {
			t.Errorf("Valid(%q) is %v", expr, !valid)
		}
	}
	for _, c := range []struct {
		id, expr string
		want     bool
	}{
		{"bob", "bob", true}, {"bob", "ann", false}, {"bob", "Bob", false},
		{"bob", "readers", true}, {"super", "ann", true}, {"bob", "super", false}, {"", "ann", false},
	} {
		if got := p.Match(c.id, c.expr); got != c.want {
			t.Errorf("Match(%q, %q) is %v", c.id, c.expr, got)
		}
	}
	if (sasl.Provider{}).Match("bob", "") {
		t.Error("an empty expression covers everybody")
	}
	schemes, err := auth.New(auth.Config{Providers: []auth.Provider{p}})
	if err != nil {
		t.Fatal(err)
	}
	acl, err := schemes.FixACL([]jute.ACL{{Perms: 31, ID: jute.ID{Scheme: "auth"}}}, []jute.ID{{Scheme: "sasl", ID: "bob"}})
	if err != nil || !slices.Equal(acl, []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: "sasl", ID: "bob"}}}) {
		t.Errorf("auth stands for %v, %v", acl, err)
	}
}

func FuzzExchange(f *testing.F) {
	f.Add([]byte(""), []byte(""))
	f.Add([]byte(""), response("x"))
	f.Add([]byte("a"), []byte("charset=utf-8,username=x"))
	f.Add([]byte("SCRAM-SHA-256\x00n,,n=bob,r=x"), []byte("c=biws,r=x,p=AAAA"))
	s := newServer()
	f.Fuzz(func(t *testing.T, first, second []byte) {
		e := s.Begin(false)
		for _, token := range [][]byte{first, second, second} {
			if _, proof, err := e.Step(token); len(proof.IDs) > 0 {
				t.Errorf("%q, %q log in as %v, %v", first, second, proof, err)
			}
		}
	})
}

// users is a file of users with each kind of line.
func users(t *testing.T) []byte {
	t.Helper()
	text := "# users\n\nann plain:an ordinary password\n"
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		v, err := sasl.NewVerifier(mechanism, "secret")
		if err != nil {
			t.Fatal(err)
		}
		text += sasl.UserLine("bob", v) + "\n" + sasl.UserLine(`a, "=b`, v) + "\r\n"
	}
	return []byte(text)
}

// fileServer is a server with a file of users, which is returned.
func fileServer(t *testing.T) (*sasl.Server, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, users(t), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := sasl.OpenUsers(path, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	return newServer(func(c *sasl.Config) { c.UsersFile = file }), path
}

func TestSCRAM(t *testing.T) {
	s, _ := fileServer(t)
	for mechanism, with := range map[string]func(string, string) func(string) (clientsasl.Mechanism, error){
		"SCRAM-SHA-256": clientscram.SHA256, "SCRAM-SHA-512": clientscram.SHA512,
	} {
		for _, c := range []struct{ user, password, want string }{
			{"bob", "secret", "sasl:bob"}, // the file goes before the others
			{`a, "=b`, "secret", `sasl:a, "=b`},
			{"ann", "an ordinary password", "sasl:ann"},
			{"ann", "an\u00a0ordinary\u2003password", "sasl:ann"},
			{"renée", "pa\u0308sswort", "sasl:renée"}, // of whom only the password is known
			{"bob", "not this one", ""},
			{"nobody", "secret", ""},
			{"void", "x", ""},
		} {
			proof, err := login(s, with(c.user, c.password))
			if idsOf(proof) != c.want || (err == nil) != (c.want != "") {
				t.Errorf("%s as %s: %q, %v; want %q", mechanism, c.user, idsOf(proof), err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), c.password) {
				t.Errorf("the error shows the password: %v", err)
			}
		}
	}
	if proof, err := login(s, clientsasl.DigestMD5("bob", "secret")); err == nil {
		t.Errorf("DIGEST-MD5 of a user with verifiers alone: %v", proof)
	}
	if proof, err := login(s, clientsasl.DigestMD5("ann", "an ordinary password")); err != nil || idsOf(proof) != "sasl:ann" {
		t.Errorf("DIGEST-MD5 of a user of the file: %v, %v", proof, err)
	}
}

func TestSCRAMMessages(t *testing.T) {
	s, _ := fileServer(t)
	for _, first := range []string{
		"", "n,,", "n,,n=bob", "n,,n=,r=x", "n,,n=bob,r=", "n,,r=x,n=bob", "p=tls-unique,,n=bob,r=x", "n,a=admin,n=bob,r=x",
		"n,x,n=bob,r=x", "n,,m=x,n=bob,r=x", "n,,n=b=ob,r=x", "x,,n=bob,r=x", "n,,n=\xff,r=x", "n,,n=bob,r=" + strings.Repeat("x", 5000),
	} {
		if reply, proof, err := s.Begin(true).Step([]byte("SCRAM-SHA-256\x00" + first)); err == nil || reply != nil || len(proof.IDs) > 0 {
			t.Errorf("%q is answered with %s", first, reply)
		}
	}
	for _, final := range []string{
		"", "c=biws", "c=biws,r=NONCE", "c=biws,r=NONCE,p=", "c=biws,r=NONCE,p=AAAA", "c=eSws,r=NONCE,p=AAAA", "c=!,r=NONCE,p=AAAA",
		"c=biws,r=x,p=AAAA", "c=biws,r=NONCE,p=!", "r=NONCE,c=biws,p=AAAA", "c=biws,r=NONCE,p=AAAA,x=y",
	} {
		e := s.Begin(false)
		reply, _, err := e.Step([]byte("SCRAM-SHA-256\x00n,,n=bob,r=x"))
		if err != nil {
			t.Fatal(err)
		}
		nonce, _, _ := strings.Cut(strings.TrimPrefix(string(reply), "r="), ",")
		if reply, proof, err := e.Step([]byte(strings.ReplaceAll(final, "NONCE", nonce))); err == nil || reply != nil || len(proof.IDs) > 0 {
			t.Errorf("%q is answered with %s", final, reply)
		}
	}
}

// TestSCRAMUnknown: what a client sees before its proof does not tell who is known.
func TestSCRAMUnknown(t *testing.T) {
	s, _ := fileServer(t)
	salt := func(user string) string {
		reply, _, err := s.Begin(false).Step([]byte("SCRAM-SHA-256\x00n,,n=" + user + ",r=x"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(reply), ",")
		return rest
	}
	for _, user := range []string{"bob", "ann", "nobody"} {
		if a, b := salt(user), salt(user); a != b || len(a) != len(salt("bob")) {
			t.Errorf("%s has the salt %s, then %s", user, a, b)
		}
	}
	if salt("nobody") == salt("none") {
		t.Error("two unknown users have the same salt")
	}
}

func TestPlain(t *testing.T) {
	s, _ := fileServer(t)
	for _, c := range []struct {
		token     string
		encrypted bool
		want      string
	}{
		{"PLAIN\x00\x00bob\x00secret", true, "sasl:bob"},
		{"PLAIN\x00bob\x00bob\x00secret", true, "sasl:bob"},
		{"PLAIN\x00\x00ann\x00an ordinary password", true, "sasl:ann"},
		{"PLAIN\x00\x00bob\x00secret", false, ""},
		{"PLAIN\x00admin\x00bob\x00secret", true, ""},
		{"PLAIN\x00\x00bob\x00wrong", true, ""},
		{"PLAIN\x00\x00bob\x00", true, ""},
		{"PLAIN\x00\x00nobody\x00secret", true, ""},
		{"PLAIN\x00\x00void\x00", true, ""},
		{"PLAIN\x00\x00bob", true, ""},
		{"PLAIN\x00\x00bob\x00secret\x00", true, ""},
		{"PLAIN\x00\x00\x00secret", true, ""},
		{"PLAIN\x00\x00\xff\x00secret", true, ""},
		{"PLAIN", true, ""},
		{"plain\x00\x00bob\x00secret", true, ""},
		{"\x00\x00bob\x00secret", true, ""},
	} {
		reply, proof, err := s.Begin(c.encrypted).Step([]byte(c.token))
		if idsOf(proof) != c.want || (err == nil) != (c.want != "") || (reply != nil) != (c.want != "") {
			t.Errorf("%q, encrypted: %v: %q, %q, %v; want %q", c.token, c.encrypted, reply, idsOf(proof), err, c.want)
		}
	}
}

func TestUsersFiles(t *testing.T) {
	for text, want := range map[string]string{
		"bob":                               "line 1: want a name, a space,",
		"\n# x\nbob secret":                 "line 3: no verifier",
		"\"bob plain:x":                     "line 1: the name has no closing quote",
		"\"\" plain:x":                      "line 1: want a name",
		"bob plain:x\nbob plain:y":          "line 2: there is another password",
		string(users(t)) + string(users(t)): "there is another",
		"bob SCRAM-SHA-1$4096:a$b:c":        "is not SCRAM-SHA-256",
		"\xff plain:x":                      "UTF-8",
	} {
		if _, err := sasl.ParseUsers([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func FuzzParseUsers(f *testing.F) {
	f.Add([]byte("# x\nbob plain:secret\n\"a b\" SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="))
	f.Fuzz(func(_ *testing.T, text []byte) {
		sasl.ParseUsers(text) // it must not panic
	})
}

// TestUserOfATokenThatGuesses checks whom the tokens of an exchange are for, before they are checked.
func TestUserOfATokenThatGuesses(t *testing.T) {
	s := sasl.NewServer(sasl.Config{})
	for token, want := range map[string]string{"": "", "PLAIN\x00\x00bob\x00pw": "bob", "PLAIN\x00bob": "", "SCRAM-SHA-256\x00n,,n=bob,r=x": "", "\x60x": ""} {
		if got := s.Begin(true).User([]byte(token)); got != want {
			t.Errorf("%q: %q, want %q", token, got, want)
		}
	}
}
