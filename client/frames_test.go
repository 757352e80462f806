package client

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

func TestFrameErrors(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", "EOF"},
		{"\x00\x00", "EOF"},
		{"\x00\x00\x00\x05abc", "unexpected EOF"},
		{"\x00\x00\x10\x01", "limit is 4096"},
		{"\xff\xff\xff\xff", "does not speak ZooKeeper's protocol"},
		{"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n", `does not speak ZooKeeper's protocol: it says "HTTP/1.1 400 Bad Request"`},
		{"HTTP/1.1 400 Bad Request\r\n", `"HTTP/1.1 400 Bad`},
	} {
		if _, err := newInput(strings.NewReader(tt.in), 4096).next(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.in, err, tt.want)
		}
	}
	broken := errors.New("broken pipe")
	if _, err := newInput(iotest.ErrReader(broken), 4096).next(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
