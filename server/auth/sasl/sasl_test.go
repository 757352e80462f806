package sasl_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	clientsasl "github.com/zkd-project/zkd/client/sasl"
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
	exchange := s.Begin()
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
		{"nobody", "", `DIGEST-MD5 as "nobody": no such user`},
		{"Bob", "secret", `DIGEST-MD5 as "Bob": no such user`},
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
	e := s.Begin()
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

	e = s.Begin()
	if _, _, err := e.Step(good); err == nil {
		t.Error("a response without a challenge is taken")
	}
	over(e, "a response without a challenge")

	for _, token := range [][]byte{[]byte("NTLM"), {0}, {0x60}, bytes.Repeat([]byte{'a'}, 1<<20)} {
		e = s.Begin()
		if _, _, err := e.Step(token); err == nil {
			t.Errorf("%.20q begins a mechanism", token)
		}
		over(e, "no mechanism")
	}
	e = sasl.NewServer(sasl.Config{}).Begin()
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
	s := newServer()
	f.Fuzz(func(t *testing.T, first, second []byte) {
		e := s.Begin()
		for _, token := range [][]byte{first, second, second} {
			if _, proof, err := e.Step(token); len(proof.IDs) > 0 {
				t.Errorf("%q, %q log in as %v, %v", first, second, proof, err)
			}
		}
	})
}
