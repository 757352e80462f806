package scram

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/scram"
)

// rfcNonce is the client's nonce in the examples.
const rfcNonce = "rOprNGfwEbeRWgbNEkqO"

// scramExample is an exchange of the user "user" with the password "pencil".
type scramExample struct {
	hash                scram.Hash
	challenge           string
	answer, serverProof string
}

// The first example is that of RFC 7677 section 3. No RFC has one of SHA-512: the second example
// is that of the tests of Apache Qpid.
var scramExamples = []scramExample{
	{
		scram.SHA256,
		"r=" + rfcNonce + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
		"c=biws,r=" + rfcNonce + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
		"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
	},
	{
		scram.SHA512,
		"r=" + rfcNonce + "02431b08-2f89-4bad-a4e6-80c0564ec865,s=Yin2FuHTt/M0kJWb0t9OI32n2VmOGi3m+JfjOvuDF88=,i=4096",
		"c=biws,r=" + rfcNonce + "02431b08-2f89-4bad-a4e6-80c0564ec865,p=Hc5yec3NmCD7t+kFRw4/3yD6/F3SQHc7AVYschRja+Bc3sbdjlA0eH1OjJc0DD4ghn1tnXN5/Wr6qm9xmaHt4A==",
		"v=BQuhnKHqYDwQWS5jAw4sZed+C9KFUALsbrq81bB0mh+bcUUbbMPNNmBIupnS2AmyyDnG5CTBQtkjJ9kyY4kzmw==",
	},
}

func TestScram(t *testing.T) {
	for _, e := range scramExamples {
		m := &client{hash: e.hash, user: "user", password: "pencil", nonce: rfcNonce}
		for i, step := range []struct {
			challenge, answer string
			done              bool
		}{
			{"", e.hash.Mechanism + "\x00n,,n=user,r=" + rfcNonce, false},
			{e.challenge, e.answer, false},
			{e.serverProof, "", true},
		} {
			answer, done, err := m.Step([]byte(step.challenge))
			if err != nil || string(answer) != step.answer || done != step.done {
				t.Errorf("%s, step %d: %q, %v, %v; want %q", e.hash.Mechanism, i+1, answer, done, err, step.answer)
			}
		}
	}
}

// TestScramBadServers has servers that do not know the password, do not have the mechanism, or
// want something else of the client than the password's proof.
func TestScramBadServers(t *testing.T) {
	good := scramExamples[0]
	change := func(old, with string) string { return strings.Replace(good.challenge, old, with, 1) }
	for _, tc := range []struct{ name, challenge, proof, want string }{
		{"another proof", good.challenge, "v=" + base64.StdEncoding.EncodeToString(make([]byte, 32)), "did not prove"},
		{"a shorter proof", good.challenge, good.serverProof[:20], "did not prove"},
		{"no proof", good.challenge, "", "server's proof"},
		{"an error", good.challenge, "e=other-error", "server's proof"},
		{"another mechanism", `realm="zk-sasl-md5",nonce="n"`, "", "does the server have SCRAM-SHA-256?"},
		{"an empty challenge", "", "", "does the server have SCRAM-SHA-256?"},
		{"an extension that must be known", "m=ext," + good.challenge, "", "does the server have SCRAM-SHA-256?"},
		{"another's nonce", change(rfcNonce, "0prNGfwEbeRWgbNEkqOr"), "", "does not continue ours"},
		{"our nonce alone", change("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", ""), "", "does not continue ours"},
		{"no salt", change("W22ZaJ0SNY7soEsUEjb6gQ==", ""), "", "no salt"},
		{"a bad salt", change("W22ZaJ0SNY7soEsUEjb6gQ==", "?"), "", "no salt"},
		{"few iterations", change("4096", "4095"), "", `"4095" iterations`},
		{"endless iterations", change("4096", fmt.Sprint(scram.MostIterations+1)), "", "iterations, want"},
		{"no number", change("4096", "many"), "", `"many" iterations`},
		{"a flood", good.challenge + ",x=" + strings.Repeat("y", 5000), "", "more than 4096"},
	} {
		m := &client{hash: good.hash, user: "user", password: "pencil", nonce: rfcNonce}
		_, _, err := m.Step(nil)
		for _, token := range []string{tc.challenge, tc.proof} {
			if err == nil {
				_, _, err = m.Step([]byte(token))
			}
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "pencil") {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestScramNames sends names and passwords that need a form of their own.
func TestScramNames(t *testing.T) {
	for _, tc := range []struct{ user, password, name, prepared string }{
		{"a,b=c", "pw", "a=2Cb=3Dc", "pw"},
		{"Жук", "p\u0061\u0308", "Жук", "pä"},
	} {
		m, err := SHA256(tc.user, tc.password)("zk1")
		if err != nil {
			t.Fatal(err)
		}
		c := m.(*client)
		first, _, err := m.Step(nil)
		if want := "SCRAM-SHA-256\x00n,,n=" + tc.name + ",r=" + c.nonce; err != nil || string(first) != want || c.password != tc.prepared || len(c.nonce) < 20 {
			t.Errorf("%q: %q, %v, want %q; the password is %q", tc.user, first, err, want, c.password)
		}
	}
	for _, tc := range [][2]string{{"", "pw"}, {"\xff", "pw"}, {"bob", ""}, {"bob", "\xff"}, {"bob", "a\x00b"}} {
		if _, err := SHA512(tc[0], tc[1])("zk1"); err == nil {
			t.Errorf("user %q with password %q is good", tc[0], tc[1])
		}
	}
}
