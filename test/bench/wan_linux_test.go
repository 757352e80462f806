package main

import (
	"io"
	"net"
	"testing"
	"time"
)

// linesBetween returns the far ends of n devices with lines between them.
func linesBetween(t *testing.T, n int, delay time.Duration, lost float64) []net.Conn {
	t.Helper()
	var ends []net.Conn
	var devices []io.ReadWriteCloser
	for range n {
		end, device := net.Pipe() // one read for each write, as from a TUN device
		ends, devices = append(ends, end), append(devices, device)
	}
	l, err := newLines(devices, delay, lost)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return ends
}

// packetTo is a packet of IPv4 to the device with a number.
func packetTo(number, content byte) []byte {
	b := make([]byte, 20, 21)
	b[0], b[19] = 4<<4|5, number
	return append(b, content)
}

func send(t *testing.T, to io.Writer, packets ...[]byte) {
	t.Helper()
	for _, p := range packets {
		if _, err := to.Write(p); err != nil {
			t.Fatal(err)
		}
	}
}

// Packets reach their devices in their order, no sooner than the delay; others go nowhere.
func TestPacketsAreDelayed(t *testing.T) {
	const delay = 20 * time.Millisecond
	ends := linesBetween(t, 3, delay, 0)
	ipv6 := packetTo(2, 0)
	ipv6[0] = 6 << 4
	began := time.Now()
	send(t, ends[0], packetTo(0, 0), packetTo(4, 0), ipv6, []byte("short"), packetTo(2, 'a'), packetTo(3, 'b'), packetTo(2, 'c'))
	b := make([]byte, 100)
	for _, want := range []struct {
		at      int
		content byte
	}{{2, 'b'}, {1, 'a'}, {1, 'c'}} {
		if n, err := ends[want.at].Read(b); err != nil || n != 21 || b[20] != want.content {
			t.Fatalf("device %d got %q, %v, want %q", want.at+1, b[:n], err, want.content)
		}
		if took := time.Since(began); took < delay {
			t.Errorf("%c took %v, less than %v", want.content, took, delay)
		}
	}
}

// With a loss of all packets none arrives.
func TestPacketsAreLost(t *testing.T) {
	near, device := net.Pipe()
	far, other := net.Pipe()
	l, err := newLines([]io.ReadWriteCloser{device, other}, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	send(t, near, packetTo(2, 0), packetTo(2, 0))
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if n, err := far.Read(make([]byte, 100)); err != io.EOF {
		t.Errorf("read %d bytes, %v, want the end", n, err)
	}
}
