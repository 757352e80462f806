package main

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) { return <-p, nil }
func (pipes) Close() error                { return nil }
func (pipes) Addr() net.Addr              { return nil }

// TestHTTPConnectionsAreBounded checks that a port for pages has so many connections and no
// more, that an ended one makes room, and that one whose reader does not read ends.
func TestHTTPConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := make(pipes, 4)
		l := &boundedListener{Listener: from, most: 2}
		dial := func() net.Conn {
			ours, theirs := net.Pipe()
			from <- theirs
			return ours
		}
		dial()
		first, _ := l.Accept()
		dial()
		l.Accept()
		refused := dial()
		accepted := make(chan net.Conn)
		go func() {
			nc, _ := l.Accept()
			accepted <- nc
		}()
		if _, err := refused.Read(make([]byte, 1)); err == nil {
			t.Error("the third connection is served")
		}
		began := time.Now()
		if _, err := first.Write([]byte("page")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != writeTimeout {
			t.Errorf("a page that is not read: %v after %v", err, time.Since(began))
		}
		first.Close()
		first.Close() // counts once
		dial()
		<-accepted
		if n := l.open.Load(); n != 2 {
			t.Errorf("%d connections are open, want 2", n)
		}
	})
}
