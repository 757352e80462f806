package main

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Links carry everything in its order, no sooner than the delay, and close what remains.
func TestLinks(t *testing.T) {
	const delay = 20 * time.Millisecond
	t.Run("all", func(t *testing.T) { testLinks(t, newLinks(delay, 0), 2*delay) })
	t.Run("lossy", func(t *testing.T) { testLinks(t, newLinks(delay, 1), 2*5*delay) })
}

// testLinks sends bytes over links and back, which takes at least so long.
func testLinks(t *testing.T, l *links, least time.Duration) {
	t.Helper()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	relay, err := l.to(echo.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", relay.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sent := bytes.Repeat([]byte("0123456789"), 20_000)
	began := time.Now()
	go func() { _, _ = c.Write(sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("what came back differs from what was sent, or %v", err)
	}
	if took := time.Since(began); took < least {
		t.Errorf("the way there and back took %v, less than %v", took, least)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if n, err := c.Read(got); err == nil {
		t.Errorf("a connection over closed links brings %d bytes", n)
	}
}

func TestParseTrips(t *testing.T) {
	if got, err := parseTrips("1,20"); err != nil || len(got) != 2 || got[1] != 20*time.Millisecond {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := parseTrips(""); err != nil || got != nil {
		t.Errorf("nothing: got %v, %v", got, err)
	}
	for _, bad := range []string{"0", "1,,3", "x", "2000"} {
		if got, err := parseTrips(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: got %v, %v, want an error that shows it", bad, got, err)
		}
	}
}

// Each server of an ensemble with links reaches the others by ports that are not theirs.
func TestFarMembers(t *testing.T) {
	e, err := newEnsemble("/bin/zkd", t.TempDir(), shape{servers: 3, far: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer e.remove()
	seen := map[string]bool{}
	for _, s := range e.servers {
		for line := range strings.Lines(read(t, s.argv[1])) {
			if _, addr, ok := strings.Cut(line, "=127.0.0.1:"); ok && strings.HasPrefix(line, "server.") {
				if seen[addr] {
					t.Errorf("the ports %s are in two lines", addr)
				}
				seen[addr] = true
			}
		}
	}
	if len(seen) != 9 {
		t.Errorf("%d pairs of ports, want 9", len(seen))
	}
}
