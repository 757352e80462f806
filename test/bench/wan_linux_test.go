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
	l, err := newLines(devices, func(int, int) time.Duration { return delay }, lost)
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

// arrivals is a device from which each packet is read once.
type arrivals [][]byte

func (a *arrivals) Read(b []byte) (int, error) {
	if len(*a) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*a)[0])
	*a = (*a)[1:]
	return n, nil
}

// Each way has its own queue, and its delay: so a packet does not wait for one of a longer way to the same device.
func TestWaysAreApart(t *testing.T) {
	l := &lines{delay: func(from, to int) time.Duration { return time.Duration(10*from+to) * time.Hour }}
	for range 3 {
		l.queues = append(l.queues, []chan packet{make(chan packet, 1), make(chan packet, 1), make(chan packet, 1)})
	}
	for from := range 2 {
		l.take(from, &arrivals{packetTo(3, 'a')})
		select {
		case p := <-l.queues[from][2]:
			if left := time.Until(p.due); left > time.Duration(10*from+2)*time.Hour || left < time.Duration(10*from+1)*time.Hour {
				t.Errorf("a packet of device %d is due in %v", from+1, left)
			}
		default:
			t.Errorf("the packet of device %d is not in its queue", from+1)
		}
	}
}

// All packets are lost, or none.
func TestPacketsAreLost(t *testing.T) {
	for lost, want := range map[float64]int{0: 2, 1: 0} {
		queue := make(chan packet, 2)
		l := &lines{queues: [][]chan packet{{queue}}, lost: lost, delay: func(int, int) time.Duration { return 0 }}
		l.take(0, &arrivals{packetTo(1, 0), packetTo(1, 0)})
		if len(queue) != want {
			t.Errorf("with a loss of %v, %d of 2 packets are left, want %d", lost, len(queue), want)
		}
	}
}
