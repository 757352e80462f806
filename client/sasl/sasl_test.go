package sasl

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/digestmd5"
	"github.com/zkd-project/zkd/jute"
)

// script is a mechanism that says its words in turn.
type script struct {
	words []string // what it answers; "-" is nil
	heard []string
	err   error // instead of the last word
}

func (s *script) String() string { return "SCRIPT" }

func (s *script) Step(challenge []byte) ([]byte, bool, error) {
	s.heard = append(s.heard, string(challenge))
	i := len(s.heard) - 1
	last := i == len(s.words)-1
	switch {
	case last && s.err != nil:
		return nil, false, s.err
	case s.words[i] == "-":
		return nil, last, nil
	}
	return []byte(s.words[i]), last, nil
}

// saslAnswer is what the server of a test says to one token.
type saslAnswer struct {
	token []byte
	code  jute.Code
	xid   int32 // added to the right one
	cut   bool  // closes the connection instead
	short bool  // sends a frame without a token
}

// saslWith runs an exchange with a server that answers so, and returns what the
// server was sent.
func saslWith(t *testing.T, begin func(string) (Mechanism, error), optional bool, answers []saslAnswer) (sent []string, err error) {
	t.Helper()
	ours, theirs := net.Pipe()
	served := make(chan error, 1)
	go func() {
		defer theirs.Close()
		for i, a := range answers {
			frame, err := jute.ReadFrame(theirs, 1<<20)
			if err != nil {
				served <- fmt.Errorf("read token %d: %w", i, err)
				return
			}
			d := jute.NewDecoder(frame)
			var h jute.RequestHeader
			h.Decode(&d)
			sent = append(sent, string(d.Buffer()))
			if d.Err() != nil || h.Type != jute.OpSASL {
				served <- fmt.Errorf("request %d is %v, %w", i, h, d.Err())
				return
			}
			if a.cut {
				break
			}
			b, mark := jute.BeginFrame(nil)
			r := jute.ReplyHeader{Xid: h.Xid + a.xid, Err: a.code}
			b = r.Append(b)
			if !a.short {
				b = jute.AppendBuffer(b, a.token)
			}
			theirs.Write(jute.EndFrame(b, mark)) // the client tells
		}
		served <- nil
	}()
	c := Conn{Writer: ours, Next: func() ([]byte, error) { return jute.ReadFrame(ours, 1<<20) }}
	err = Authenticate(c, "zk1", begin, optional)
	ours.Close()
	if e := <-served; e != nil && !errors.Is(e, io.EOF) {
		t.Error(e)
	}
	return sent, err
}

func TestSASLExchange(t *testing.T) {
	say := func(s string) saslAnswer { return saslAnswer{token: []byte(s)} }
	null := saslAnswer{}
	for _, c := range []struct {
		name     string
		words    string // of the client
		stepErr  error
		optional bool
		answers  []saslAnswer
		sent     string
		want     string // of the error; "" is none
		final    bool   // the error ends the session
	}{
		{name: "server has the last word", words: "a b -", answers: []saslAnswer{say("1"), say("2")}, sent: "a b"},
		{name: "client has the last word", words: "a b", answers: []saslAnswer{say("1"), null}, sent: "a b"},
		{name: "one word", words: "a", answers: []saslAnswer{null}, sent: "a"},
		{name: "an empty challenge is one", words: "a b", answers: []saslAnswer{say(""), null}, sent: "a b"},
		{name: "no SASL", words: "a b", answers: []saslAnswer{null}, sent: "a", want: "the server has no SASL"},
		{name: "no SASL, optional", words: "a b", optional: true, answers: []saslAnswer{null}, sent: "a"},
		{name: "refused", words: "a b -", answers: []saslAnswer{say("1"), {code: jute.ErrAuthFailed}}, sent: "a b",
			want: "SASL SCRIPT: authentication failed: the server refused the credentials: check the user's name", final: true},
		{name: "refused, optional", words: "a b", optional: true, answers: []saslAnswer{{code: jute.ErrAuthFailed}}, sent: "a",
			want: "refused the credentials", final: true},
		{name: "refused at the end", words: "a b", answers: []saslAnswer{say("1"), {code: jute.ErrSessionClosedRequireSASL}}, sent: "a b",
			want: "refused the credentials", final: true},
		{name: "refused without a body", words: "a b", answers: []saslAnswer{{code: jute.ErrAuthFailed, short: true}}, sent: "a",
			want: "refused the credentials", final: true},
		{name: "refusal ignored", words: "a b -", optional: true, answers: []saslAnswer{say("1"), null}, sent: "a b",
			want: "allowSaslFailedClients"},
		{name: "another code", words: "a b", answers: []saslAnswer{{code: jute.ErrThrottledOp}}, sent: "a", want: jute.ErrThrottledOp.Error()},
		{name: "cut", words: "a b", answers: []saslAnswer{{cut: true}}, sent: "a", want: "closed the connection"},
		{name: "wrong xid", words: "a b", answers: []saslAnswer{{xid: 1}}, sent: "a", want: "a reply with xid 2 where that to xid 1 was due"},
		{name: "no token", words: "a b", answers: []saslAnswer{{short: true}}, sent: "a", want: "decode reply"},
		{name: "the client gives up", words: "a b", stepErr: errors.New("bad word"), answers: []saslAnswer{say("1")}, sent: "a", want: "bad word"},
		{name: "the client is sure", words: "a b", stepErr: fmt.Errorf("no ticket: %w", jute.ErrAuthFailed), answers: []saslAnswer{say("1")}, sent: "a",
			want: "no ticket", final: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &script{words: strings.Fields(c.words), err: c.stepErr}
			sent, err := saslWith(t, func(string) (Mechanism, error) { return m, nil }, c.optional, c.answers)
			if got := strings.Join(sent, " "); got != c.sent {
				t.Errorf("sent %q, want %q", got, c.sent)
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if final := errors.Is(err, jute.ErrAuthFailed); final != c.final {
				t.Errorf("error %v: final is %v, want %v", err, final, c.final)
			}
		})
	}
}

// TestSASLDigestMD5 exchanges with a server that answers as Apache does.
func TestSASLDigestMD5(t *testing.T) {
	m, err := digestmd5.NewClient("bob", "secret", digestURI, "c")
	if err != nil {
		t.Fatal(err)
	}
	terms := digestmd5.Terms{User: "bob", Realm: "zk-sasl-md5", Nonce: "n", Cnonce: "c", URI: digestURI}
	secret := terms.Secret("secret")
	sent, err := saslWith(t, func(string) (Mechanism, error) { return m, nil }, false, []saslAnswer{
		{token: []byte(`realm="zk-sasl-md5",nonce="n",charset=utf-8,algorithm=md5-sess`)},
		{token: []byte("rspauth=" + terms.ServerProof(secret))},
	})
	if err != nil || len(sent) != 2 || sent[0] != "" || !strings.Contains(sent[1], "response="+terms.ClientProof(secret)) {
		t.Errorf("sent %q, %v", sent, err)
	}
}

func TestSASLNoMechanism(t *testing.T) {
	begin := func(server string) (Mechanism, error) { return nil, errors.New("no key for " + server) }
	if _, err := saslWith(t, begin, false, nil); err == nil || err.Error() != "SASL: no key for zk1" {
		t.Errorf("error %v", err)
	}
}

func TestDigestMD5Nonces(t *testing.T) {
	answers := make(map[string]bool)
	for range 2 {
		m, err := DigestMD5("bob", "secret")("zk1")
		if err != nil {
			t.Fatal(err)
		}
		var answer []byte
		for _, challenge := range []string{"", `nonce="n",algorithm=md5-sess`} {
			if answer, _, err = m.Step([]byte(challenge)); err != nil {
				t.Fatal(err)
			}
		}
		answers[string(answer)] = true
	}
	if len(answers) != 2 {
		t.Error("two exchanges have the same cnonce")
	}
}
