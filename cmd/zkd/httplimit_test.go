package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if nc, ok := <-p; ok {
		return nc, nil
	}
	return nil, net.ErrClosed
}
func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return nil }

// pipe is an end of a pipe with an address.
type pipe struct {
	net.Conn
	address string
}

func (p pipe) RemoteAddr() net.Addr {
	at, _ := net.ResolveTCPAddr("tcp", p.address)
	return at
}

// dial begins a connection from an address.
func (p pipes) dial(address string) net.Conn {
	ours, theirs := net.Pipe()
	p <- pipe{theirs, address}
	return ours
}

// ended reports whether a connection has ended.
func ended(nc net.Conn) bool {
	nc.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := nc.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// TestHTTPConnectionsAreBounded checks that a port for pages has no more connections than it may, that who
// has most of them gives way, that an ended one makes room, and that one whose reader does not read ends.
func TestHTTPConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := make(pipes, 4)
		l := &boundedListener{Listener: from, most: 3}
		accepted := make(chan net.Conn, 8)
		go func() {
			for {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				accepted <- nc
			}
		}()
		var swarm []net.Conn
		for range 4 {
			swarm = append(swarm, from.dial("10.0.0.1:1"))
			synctest.Wait()
		}
		if ended(swarm[0]) || ended(swarm[2]) || !ended(swarm[3]) {
			t.Error("the fourth connection of an address does not end, or another one does")
		}
		one := from.dial("10.0.0.2:1")
		synctest.Wait()
		if !ended(swarm[0]) || ended(swarm[1]) || ended(one) {
			t.Error("an address that has most does not give one up to another, or more than one")
		}
		v6 := from.dial("[2001:db8::1]:1")
		synctest.Wait()
		if ended(v6) || !ended(swarm[1]) {
			t.Error("a third address has to wait")
		}
		if !ended(from.dial("[2001:db8::2]:1")) {
			t.Error("another address of the same network is served")
		}
		<-accepted
		<-accepted
		last := <-accepted
		began := time.Now()
		if _, err := last.Write([]byte("page")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != writeTimeout {
			t.Errorf("a page that is not read: %v after %v", err, time.Since(began))
		}
		last.Close()
		last.Close() // counts once
		if n := l.places.Len(); n != 2 {
			t.Errorf("%d connections are open, want 2", n)
		}
		close(from)
	})
}

// TestBodiesInTime sends the body of a request byte by byte: the connection ends. A page without a body may
// last.
func TestBodiesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := make(pipes, 1)
		pages := http.NewServeMux()
		pages.HandleFunc("GET /last", func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(time.Hour):
				io.WriteString(w, "an hour")
			}
		})
		pages.HandleFunc("POST /read", func(_ http.ResponseWriter, r *http.Request) { io.ReadAll(r.Body) })
		pages.HandleFunc("POST /unread", func(http.ResponseWriter, *http.Request) {})
		s := &http.Server{Handler: hurried(pages), ReadHeaderTimeout: headerTimeout}
		served := make(chan error)
		go func() { served <- s.Serve(from) }()
		for _, tt := range []struct {
			name, head string
			most       time.Duration
		}{
			{"a head", "POST /read HTTP/1.1\r\nHost: a\r\n", headerTimeout},
			{"a body that is read", "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n", bodyTimeout},
			{"a body that is not read", "POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n", bodyTimeout},
			{"a body without a length", "POST /unread HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n", bodyTimeout},
		} {
			nc := from.dial("10.0.0.1:1")
			began := time.Now()
			io.WriteString(nc, tt.head)
			go io.Copy(io.Discard, nc)
			var err error
			for err == nil && time.Since(began) < time.Hour {
				time.Sleep(time.Second)
				_, err = nc.Write([]byte("x"))
			}
			if took := time.Since(began); took > tt.most+2*time.Second {
				t.Errorf("%s, byte by byte, holds a connection for %v", tt.name, took)
			}
			nc.Close()
		}
		nc := from.dial("10.0.0.1:1")
		io.WriteString(nc, "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		if text, err := io.ReadAll(nc); err != nil || !strings.HasSuffix(string(text), "an hour") {
			t.Errorf("a page that lasts: %q, %v", text, err)
		}
		close(from)
		<-served
		s.Close()
	})
}
