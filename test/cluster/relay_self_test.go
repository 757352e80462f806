package cluster

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// TestRelay checks that a network does what it is told: in one direction, and then
// no more.
func TestRelay(t *testing.T) {
	a, b := newServer(t, 1, t.TempDir(), t.TempDir()), newServer(t, 2, t.TempDir(), t.TempDir())
	echo, err := net.Listen("tcp", (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: b.quorum}).String())
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			nc, err := echo.Accept()
			if err != nil {
				return
			}
			go io.Copy(nc, nc)
		}
	}()
	n := newNetwork(t, []*server{a, b})
	dial := func() net.Conn {
		t.Helper()
		nc, err := net.Dial("tcp", n.relays[[2]int{1, 2}][0].listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		return nc
	}
	buf := make([]byte, 1000)
	hears := func(nc net.Conn, want string) {
		t.Helper()
		nc.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(nc, buf[:len(want)]); err != nil || string(buf[:len(want)]) != want {
			t.Fatalf("heard %q, %v; want %q", buf[:len(want)], err, want)
		}
	}
	deaf := func(nc net.Conn) {
		t.Helper()
		nc.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
		if n, err := nc.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("heard %q, %v, although all is held", buf[:n], err)
		}
	}
	ended := func(nc net.Conn) {
		t.Helper()
		nc.SetReadDeadline(time.Now().Add(patience))
		if n, err := nc.Read(buf); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("heard %q, %v, although the connection is cut", buf[:n], err)
		}
	}

	nc := dial()
	io.WriteString(nc, "plain")
	hears(nc, "plain")
	for _, way := range [][2]int{{1, 2}, {2, 1}} {
		n.set(way[0], way[1], weather{held: true})
		io.WriteString(nc, "held")
		deaf(nc)
		late := dial() // it seems to work, as when the network swallows all
		io.WriteString(late, "late")
		deaf(late)
		n.heal()
		hears(nc, "held")
		hears(late, "late")
	}
	begun := time.Now()
	n.set(1, 2, weather{delay: 20 * time.Millisecond})
	io.WriteString(nc, "slow")
	hears(nc, "slow")
	if took := time.Since(begun); took < 20*time.Millisecond {
		t.Errorf("came after %v, and is to take 20ms", took)
	}
	n.set(1, 2, weather{rate: 100_000})
	begun = time.Now()
	io.WriteString(nc, strings.Repeat("n", 1000))
	hears(nc, strings.Repeat("n", 1000))
	if took := time.Since(begun); took < 10*time.Millisecond {
		t.Errorf("1000 bytes came after %v, and are to take 10ms", took)
	}
	n.heal()
	n.reset(2, 1)
	ended(nc)
	nc = dial()
	io.WriteString(nc, "anew")
	hears(nc, "anew")
	n.cut(1, 2)
	ended(nc)
	if nc, err := net.Dial("tcp", n.relays[[2]int{1, 2}][0].listener.Addr().String()); err == nil {
		ended(nc)
		nc.Close()
	}
	n.heal()
	nc = dial()
	io.WriteString(nc, "again")
	hears(nc, "again")
}
