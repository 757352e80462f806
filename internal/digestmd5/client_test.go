package digestmd5

import (
	"crypto/md5"
	"fmt"
	"strings"
	"testing"
)

// uri is that of Apache's servers.
const uri = "zookeeper/zk-sasl-md5"

// zkChallenge is a challenge of Apache's server.
const zkChallenge = `realm="zk-sasl-md5",nonce="k+HXzGYkuPaaLSo0lD8kc7g5WT9nGsvGx5jiZBsz",charset=utf-8,algorithm=md5-sess`

// TestClientVector is the example of RFC 2831 section 4.
func TestClientVector(t *testing.T) {
	m := &Client{user: "chris", password: "secret", uri: "imap/elwood.innosoft.com", cnonce: "OA6MHXh6VqTrRk"}
	first, done, err := m.Step(nil)
	if first == nil || len(first) > 0 || done || err != nil {
		t.Fatalf("first step: %q, %v, %v; want an empty token", first, done, err)
	}
	answer, done, err := m.Step([]byte(`realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8`))
	const want = `charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",nc=00000001,` +
		`cnonce="OA6MHXh6VqTrRk",digest-uri="imap/elwood.innosoft.com",response=d388dad90d4bbd760a152321f2143af7,qop=auth`
	if string(answer) != want || done || err != nil {
		t.Fatalf("answer: %s, %v, %v\nwant    %s", answer, done, err, want)
	}
	last, done, err := m.Step([]byte("rspauth=ea40f60335c427b5527b84dbabcdfffd"))
	if last != nil || !done || err != nil {
		t.Errorf("last step: %q, %v, %v; want the end", last, done, err)
	}
}

// TestClientCharsets: what the answer says of a name, and the letters in which
// name and password are hashed, depend on the server and on the letters.
func TestClientCharsets(t *testing.T) {
	const plain = `realm="r",nonce="n",algorithm=md5-sess`
	for _, c := range []struct{ user, password, challenge, name, hashed string }{
		{"bob", "pw", plain, `username="bob"`, "bob:r:pw"},
		{"bob", "pw", `nonce="n",algorithm=md5-sess`, `username="bob",nonce=`, "bob::pw"},
		{"renée", "pä", plain, "username=\"ren\xe9e\"", "ren\xe9e:r:p\xe4"},
		{"renée", "pä", plain + ",charset=utf-8", `username="renée"`, "ren\xe9e:r:p\xe4"},
		{"Жук", "pä", plain + ",charset=utf-8", `username="Жук"`, "Жук:r:p\xe4"},
		{`a"b\c`, `"\`, plain, `username="a\"b\\c"`, `a"b\c:r:"\`},
	} {
		m := &Client{user: c.user, password: c.password, uri: uri, cnonce: "c", step: 1}
		answer, _, err := m.Step([]byte(c.challenge))
		if err != nil || !strings.Contains(string(answer), c.name) {
			t.Errorf("%s with %s: %s, %v; want %s in it", c.user, c.challenge, answer, err, c.name)
			continue
		}
		h := func(s string) string { return fmt.Sprintf("%x", md5.Sum([]byte(s))) }
		raw := unhex(t, h(c.hashed))
		want := "response=" + h(h(raw+":n:c")+":n:00000001:c:auth:"+h("AUTHENTICATE:"+uri))
		if !strings.Contains(string(answer), want) {
			t.Errorf("%s with %s: %s; want %s in it", c.user, c.challenge, answer, want)
		}
	}
	for _, c := range []struct{ user, password, want string }{
		{"Жук", "pw", "the user name has letters beyond ISO 8859-1"},
		{"bob", "пароль", "the password has letters beyond ISO 8859-1"},
	} {
		m := &Client{user: c.user, password: c.password, step: 1}
		if _, _, err := m.Step([]byte(plain)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v; want an error with %q", c.user, c.password, err, c.want)
		}
	}
}

func unhex(t *testing.T, s string) string {
	t.Helper()
	var b []byte
	if _, err := fmt.Sscanf(s, "%x", &b); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestClientChallenges(t *testing.T) {
	const good = `nonce="n",algorithm=md5-sess`
	for _, c := range []struct{ challenge, want string }{
		{zkChallenge, ""},
		{good, ""},
		{`NONCE="n" , , Algorithm="MD5-sess",qop="auth-int, auth", realm="a",realm="b",x="1",x="2",`, ""},
		{good + `,qop="auth,auth-conf",stale=true,maxbuf=65536`, ""},

		{"", "no nonce"},
		{`nonce="",algorithm=md5-sess`, "no nonce"},
		{`nonce="n"`, "no algorithm"},
		{good + `,nonce="m"`, "nonce twice"},
		{good + ",algorithm=md5-sess", "algorithm twice"},
		{good + ",maxbuf=1,maxbuf=2", "maxbuf twice"},
		{`nonce="n",algorithm=md5`, `algorithm "md5"`},
		{good + ",charset=latin1", `charset "latin1"`},
		{good + `,qop="auth-int,auth-conf"`, "does not offer auth"},
		{good + ",realm", "no name=value"},
		{good + `,="x"`, "no name=value"},
		{good + ",realm=", "realm: no value"},
		{good + `,realm="x`, "realm: no closing quote"},
		{good + `,realm="x\`, "realm: no closing quote"},
		{good + `,realm="x"y`, "follows its value"},
		{good + ",realm=x y", "follows its value"},
		{good + `,realm="` + strings.Repeat("x", 2048) + `"`, "more than 2048"},
	} {
		_, err := parseChallenge([]byte(c.challenge))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.challenge, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v; want an error with %q", c.challenge, err, c.want)
		}
	}
}

func TestClientProof(t *testing.T) {
	for _, proof := range []string{"", "rspauth=", "rspauth=ea40f60335c427b5527b84dbabcdfffd", `rspauth="`, "x=1"} {
		m := &Client{user: "bob", password: "secret", uri: uri, cnonce: "c", step: 1}
		if _, _, err := m.Step([]byte(zkChallenge)); err != nil {
			t.Fatal(err)
		}
		if _, done, err := m.Step([]byte(proof)); err == nil || done {
			t.Errorf("proof %q is taken", proof)
		}
	}
}

func TestClientArguments(t *testing.T) {
	for _, c := range []struct{ user, password string }{{"", "x"}, {"\xff", "x"}, {"bob", "\xff"}} {
		if _, err := NewClient(c.user, c.password, uri, "c"); err == nil {
			t.Errorf("user %q, password %q: no error", c.user, c.password)
		}
	}
}

func FuzzClient(f *testing.F) {
	f.Add(zkChallenge)
	f.Add(`nonce="a\"b",algorithm=md5-sess , ,x=y,`)
	f.Add("rspauth=ea40f60335c427b5527b84dbabcdfffd")
	f.Fuzz(func(t *testing.T, s string) {
		m := &Client{user: "bob", password: "secret", uri: uri, cnonce: "c", step: 1}
		m.Step([]byte(s)) // it must not panic
	})
}
