package apachelink

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/digestmd5"
	"github.com/zkd-project/zkd/jute"
)

// link is the end of a link whose other end has sent everything before it reads anything.
type link struct {
	bytes.Reader
	sent bytes.Buffer
}

func (l *link) Write(b []byte) (int, error) { return l.sent.Write(b) }

func authPacket(status int32, token string) string {
	b := binary.BigEndian.AppendUint64(nil, authMagic)
	return string(jute.AppendBuffer(jute.AppendInt32(b, status), []byte(token)))
}

const quorumURI = "zookeeper-quorum/zk-quorum-sasl-md5"

const quorumChallenge = `realm="zk-quorum-sasl-md5",nonce="n",charset=utf-8,algorithm=md5-sess`

func TestLogin(t *testing.T) {
	terms := digestmd5.Terms{User: "zkd", Realm: "zk-quorum-sasl-md5", Nonce: "n", Cnonce: "c", URI: quorumURI}
	proof := "rspauth=" + terms.ServerProof(terms.Secret("s3cret"))
	challenge := authPacket(authInProgress, quorumChallenge)
	for _, c := range []struct{ name, answers, want string }{
		{"accepted", challenge + authPacket(authSuccess, proof), ""},
		{"refused", challenge + authPacket(authError, ""), "compare user and password"},
		{"a server that does not know the password", challenge + authPacket(authSuccess, "rspauth=00"), "did not prove"},
		{"accepted without a proof", authPacket(authSuccess, ""), "challenge"},
		{"accepted before the proof", authPacket(authSuccess, quorumChallenge), "too early"},
		{"not accepted", challenge + authPacket(authInProgress, proof), "too late"},
		{"no SASL", strings.Repeat("x", 16), "no SASL"},
		{"closed", "", "quorum.auth.enableSasl"},
		{"another status", authPacket(7, ""), "status 7"},
		{"a long token", authPacket(authInProgress, strings.Repeat("x", maxToken+1)), "token of 4097 bytes"},
		{"an end within a token", challenge[:len(challenge)-1], "EOF"},
	} {
		l := &link{}
		l.Reset([]byte(c.answers))
		err := Login(l, digest(t))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v; want an error with %q", c.name, err, c.want)
		}
		if refused := c.name == "refused"; errors.Is(err, ErrRefused) != refused {
			t.Errorf("%s: %v; is ErrRefused: %v", c.name, err, !refused)
		}
		sent := l.sent.String()
		first := authPacket(authInProgress, "")
		if !strings.HasPrefix(sent, first) {
			t.Errorf("%s: sent %q", c.name, sent)
		}
		if want := "response=" + terms.ClientProof(terms.Secret("s3cret")); c.want == "" && !strings.Contains(sent, want) {
			t.Errorf("%s: sent %q, without %s", c.name, sent, want)
		}
	}
}

func digest(t *testing.T) Mechanism {
	m, err := digestmd5.NewClient("zkd", "s3cret", quorumURI, "c")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLastWord logs in by a mechanism in which the client has the last word, as it has in Kerberos.
func TestLastWord(t *testing.T) {
	for _, c := range []struct{ name, answers, want string }{
		{"accepted", authPacket(authInProgress, "offer") + authPacket(authSuccess, ""), ""},
		{"refused", authPacket(authInProgress, "offer") + authPacket(authError, ""), "refused"},
		{"accepted before the last word", authPacket(authSuccess, "offer"), "too early"},
		{"not accepted", authPacket(authInProgress, "offer") + authPacket(authInProgress, "more"), "too late"},
	} {
		l := &link{}
		l.Reset([]byte(c.answers))
		err := Login(l, &words{"ticket", "choice"})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want an error with %q", c.name, err, c.want)
		}
		if want := authPacket(authInProgress, "ticket") + authPacket(authInProgress, "choice"); c.want == "" && l.sent.String() != want {
			t.Errorf("%s: sent %q", c.name, l.sent.String())
		}
	}
}

// words is a mechanism that says one word after the other, whatever it hears.
type words []string

func (w *words) Step([]byte) (answer []byte, done bool, err error) {
	answer, *w = []byte((*w)[0]), (*w)[1:]
	return answer, len(*w) == 0, nil
}

func FuzzLogin(f *testing.F) {
	f.Add([]byte(authPacket(authInProgress, quorumChallenge) + authPacket(authSuccess, "rspauth=00")))
	f.Add([]byte(authPacket(authError, "x")))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &link{}
		l.Reset(b)
		if Login(l, digest(t)) == nil && !bytes.Contains(b, []byte("rspauth=")) {
			t.Error("a login without the server's proof")
		}
	})
}
