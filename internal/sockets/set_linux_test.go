package sockets

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
)

// pair returns the two ends of a connection.
func pair(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

func raw(t *testing.T, c *net.TCPConn) syscall.RawConn {
	t.Helper()
	r, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newSet(t *testing.T) (*Set, chan uint64) {
	t.Helper()
	reports := make(chan uint64, 100)
	s, err := NewSet(func(id uint64) { reports <- id })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, reports
}

// Each Await gives one report, whenever the bytes came, with all bits of the number.
func TestAwait(t *testing.T) {
	s, reports := newSet(t)
	client, server := pair(t)
	const id = 1<<63 | 1<<31 | 5
	write := func() {
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		before := i%2 == 0
		if before {
			write()
		}
		if err := s.Await(raw(t, server), id, i > 0); err != nil {
			t.Fatal(err)
		}
		if !before {
			write()
		}
		if got := <-reports; got != id {
			t.Fatalf("report of %x, want %x", got, uint64(id))
		}
		if _, err := server.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
	}
	if len(reports) > 0 {
		t.Errorf("%d more reports than calls of Await", len(reports))
	}
}

// A client that closes its connection, or breaks it, is reported.
func TestAwaitEnd(t *testing.T) {
	s, reports := newSet(t)
	for i, end := range []func(*net.TCPConn){
		func(c *net.TCPConn) { c.Close() },
		func(c *net.TCPConn) { c.CloseWrite() },
		func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
	} {
		client, server := pair(t)
		if err := s.Await(raw(t, server), uint64(i), false); err != nil {
			t.Fatal(err)
		}
		end(client)
		if got := <-reports; got != uint64(i) {
			t.Errorf("report of %d, want %d", got, i)
		}
	}
}

// A socket that is closed leaves the set: the next one with its descriptor can be added, and
// only that one is reported.
func TestAwaitReusedDescriptor(t *testing.T) {
	s, reports := newSet(t)
	for id := range uint64(100) {
		client, server := pair(t)
		if err := s.Await(raw(t, server), 2*id, false); err != nil {
			t.Fatal(err)
		}
		server.Close()
		client.Close()
		client, server = pair(t)
		if err := s.Await(raw(t, server), 2*id+1, false); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if got := <-reports; got != 2*id+1 {
			t.Fatalf("report of %d, want %d", got, 2*id+1)
		}
		client.Close()
		server.Close()
	}
}

// After Close, there are no reports, and Await fails.
func TestClose(t *testing.T) {
	var mu sync.Mutex
	closed := false
	s, err := NewSet(func(id uint64) {
		mu.Lock()
		defer mu.Unlock()
		if closed {
			t.Errorf("report of %d after Close", id)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for id := range uint64(100) {
		client, server := pair(t)
		if err := s.Await(raw(t, server), id, false); err != nil {
			t.Fatal(err)
		}
		writers.Go(func() { client.Write([]byte("x")) })
	}
	s.Close()
	mu.Lock()
	closed = true
	mu.Unlock()
	writers.Wait()
	_, server := pair(t)
	if err := s.Await(raw(t, server), 1, false); err == nil {
		t.Error("Await after Close succeeded")
	}
	_, server = pair(t)
	r := raw(t, server)
	server.Close()
	open, _ := newSet(t)
	if err := open.Await(r, 1, false); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Await of a closed socket: %v, want %v", err, net.ErrClosed)
	}
}
