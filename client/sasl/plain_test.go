package sasl

import (
	"strings"
	"testing"
)

// TestPlain sends a password, if there is TLS.
func TestPlain(t *testing.T) {
	m, err := Plain("bob", "pw")("zk1")
	if err != nil {
		t.Fatal(err)
	}
	first, done, err := m.Step(nil)
	if err != nil || done || string(first) != "PLAIN\x00\x00bob\x00pw" {
		t.Errorf("%q, %v, %v", first, done, err)
	}
	if _, done, err := m.Step([]byte{}); err != nil || !done {
		t.Errorf("after the server's answer: %v, %v", done, err)
	}
	if _, _, err := m.Step([]byte("challenge")); err == nil {
		t.Error("a challenge is no error")
	}
	if sent, err := saslWith(t, Plain("bob", "pw"), false, nil); err == nil || len(sent) > 0 || !strings.Contains(err.Error(), "plain text") {
		t.Errorf("without TLS: sent %q, %v", sent, err)
	}
	for _, tc := range [][2]string{{"", "pw"}, {"\xff", "pw"}, {"bob", "\xff"}, {"bob", "a\x00b"}, {"b\x00ob", "pw"}} {
		if _, err := Plain(tc[0], tc[1])("zk1"); err == nil {
			t.Errorf("user %q with password %q is good", tc[0], tc[1])
		}
	}
}
