package testserver

import (
	"bufio"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// What a server answers at first is its word on a session, or something else.
func TestSessionOf(t *testing.T) {
	frame := func(r jute.ConnectResponse) string {
		b, mark := jute.BeginFrame(nil)
		return string(jute.EndFrame(r.Append(b), mark))
	}
	password := make([]byte, jute.PasswordLen)
	accepted := frame(jute.ConnectResponse{TimeoutMs: 4000, SessionID: 0x1a2b, Password: password, HasReadOnly: true})
	for name, tt := range map[string]struct {
		answer string
		want   jute.SessionID
	}{
		"accepted":         {accepted, 0x1a2b},
		"with a reply":     {accepted + "\x00\x00\x00\x10reply", 0x1a2b},
		"an old server's":  {frame(jute.ConnectResponse{TimeoutMs: 4000, SessionID: 7, Password: password}), 7},
		"expired":          {frame(jute.ConnectResponse{Password: password}), 0},
		"a word's answer":  {"imok", 0},
		"a longer word's":  {"Zookeeper version: 3.9.5\n", 0},
		"cut off":          {accepted[:20], 0},
		"nothing":          {"", 0},
		"no frame at all":  {"\x00\x00\x00\x02\xff\xff", 0},
		"a frame too long": {"\x00\x00\x02\x00" + strings.Repeat("x", 512), 0},
	} {
		r := bufio.NewReader(strings.NewReader(tt.answer))
		if got := sessionOf(r); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
		rest := new(strings.Builder)
		if _, err := r.WriteTo(rest); err != nil || rest.String() != tt.answer {
			t.Errorf("%s: passes on %q, %v", name, rest, err)
		}
	}
}
