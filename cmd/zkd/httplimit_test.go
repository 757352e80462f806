package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/keystore"
	"github.com/zkd-project/zkd/internal/testing/certs"
	"github.com/zkd-project/zkd/server/secure"
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
			for { // a request comes at once
				nc, err := l.Accept()
				if err != nil {
					return
				}
				follow(nc, http.StateActive)
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

// TestZooKeeperClientsAreToldAtOnce has a client of ZooKeeper connect to ports for HTTP: it waits for the answer to its
// first frame, and must not wait until HTTP gives up.
func TestZooKeeperClientsAreToldAtOnce(t *testing.T) {
	dir, ca := t.TempDir(), certs.New(t, "CA")
	key := certs.Write(t, dir, "key.pem", ca.Issue("localhost").PEM(t))
	keys, err := secure.New(secure.Settings{Files: keystore.Files{Key: keystore.Store{File: key}}, ClientAuth: secure.NoClientAuth}, "admin", zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name       string
		tls, plain bool
		want       string
	}{
		{"plain", false, true, "HTTP/1.1 400 Bad Request"},
		{"TLS", true, false, ""},
		{"both", true, true, "HTTP/1.1 400 Bad Request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := make(pipes, 1)
				var l net.Listener = &boundedListener{Listener: from, most: 1}
				var running sync.WaitGroup
				if tt.tls {
					over := newTLSListener(l, keys, tt.plain)
					running.Go(over.run)
					l = over
				}
				s := newHTTPServer(http.NotFoundHandler())
				running.Go(func() { s.Serve(l) })
				nc := from.dial("10.0.0.1:1")
				began := time.Now()
				go nc.Write(append([]byte{0, 0, 0, 45}, make([]byte, 45)...)) // may not be read to its end
				text, _ := io.ReadAll(nc)                                     // its error is how the other side closes
				if first, _, _ := strings.Cut(string(text), "\r\n"); first != tt.want || time.Since(began) > 0 {
					t.Errorf("%q after %v, want %q at once", first, time.Since(began), tt.want)
				}
				nc.Close()
				close(from)
				s.Close()
				running.Wait()
			})
		})
	}
}

// scarce is a listener that has no descriptor for its first connections.
type scarce struct {
	net.Listener
	lacks int
}

func (l *scarce) Accept() (net.Conn, error) {
	if l.lacks--; l.lacks >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// TestHTTPWithoutDescriptors has ports that can't accept connections for some seconds: they say so once, and serve
// pages afterwards, also with TLS.
func TestHTTPWithoutDescriptors(t *testing.T) {
	for _, withTLS := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			from, told := make(pipes, 1), 0
			var l net.Listener = &boundedListener{Listener: &scarce{from, 50}, most: 1, lacks: func(err error) {
				if err != nil {
					told++
				}
			}}
			var running sync.WaitGroup
			if withTLS {
				over := newTLSListener(l, nil, true)
				running.Go(over.run)
				l = over
			}
			s := newHTTPServer(http.NotFoundHandler())
			running.Go(func() { s.Serve(l) })
			nc := from.dial("10.0.0.1:1")
			io.WriteString(nc, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
			if text, _ := io.ReadAll(nc); !strings.Contains(string(text), "404") || told != 1 {
				t.Errorf("TLS %v: %q, and the lack was told %d times", withTLS, text, told)
			}
			close(from)
			s.Close()
			running.Wait()
		})
	}
}

// TestSilentConnectionsGiveWay has all connections of a port taken by clients that send no request, again and
// again: others get their pages at once, and who gets one already is not disturbed.
func TestSilentConnectionsGiveWay(t *testing.T) {
	dir, ca := t.TempDir(), certs.New(t, "CA")
	key := certs.Write(t, dir, "key.pem", ca.Issue("localhost").PEM(t))
	settings := secure.Settings{Files: keystore.Files{Key: keystore.Store{File: key}}, ClientAuth: secure.NoClientAuth}
	const most = 100
	for _, tt := range []struct {
		name    string
		tls     bool
		address string // of silent ones, %d is a number
	}{
		{"plain, one address", false, "10.0.0.1:%d"},
		{"plain, an address for each", false, "10.0.1.%d:1"},
		{"TLS, one address", true, "10.0.0.1:%d"},
		{"TLS, an address for each", true, "10.0.1.%d:1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := make(pipes, 4*most)
				var l net.Listener = &boundedListener{Listener: from, most: most}
				var running sync.WaitGroup
				if tt.tls {
					keys, err := secure.New(settings, "admin", zap.NewNop())
					if err != nil {
						t.Fatal(err)
					}
					over := newTLSListener(l, keys, true)
					running.Go(over.run)
					l = over
				}
				pages := http.NewServeMux()
				pages.HandleFunc("GET /page", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "page") })
				begun, finish := make(chan bool), make(chan bool)
				pages.HandleFunc("GET /long", func(w http.ResponseWriter, _ *http.Request) {
					begun <- true
					<-finish
					io.WriteString(w, "long")
				})
				s := newHTTPServer(pages)
				running.Go(func() { s.Serve(l) })
				get := func(address, page string) string {
					nc := from.dial(address)
					defer nc.Close()
					if tt.tls {
						pool := x509.NewCertPool()
						pool.AddCert(ca.Cert)
						nc = tls.Client(nc, &tls.Config{RootCAs: pool, ServerName: "localhost"})
					}
					began := time.Now()
					nc.SetDeadline(began.Add(time.Minute))
					io.WriteString(nc, "GET "+page+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
					text, err := io.ReadAll(nc)
					if took := time.Since(began); took > 0 {
						t.Errorf("%s from %s after %v: %v", page, address, took, err)
					}
					return string(text)
				}
				long := make(chan string)
				go func() { long <- get("10.0.0.1:9999", "/long") }()
				<-begun
				for range 3 {
					var silent []net.Conn
					for i := range most {
						silent = append(silent, from.dial(fmt.Sprintf(tt.address, i+1)))
						synctest.Wait()
					}
					for _, address := range []string{"10.0.0.1:9999", "10.0.0.2:1", "[2001:db8::1]:1"} {
						if text := get(address, "/page"); !strings.HasSuffix(text, "page") {
							t.Errorf("the page from %s is %q", address, text)
						}
						synctest.Wait() // its connection has ended on both sides
					}
					defer func() {
						for _, nc := range silent {
							nc.Close()
						}
					}()
				}
				finish <- true
				if text := <-long; !strings.HasSuffix(text, "long") {
					t.Errorf("the page that lasts is %q", text)
				}
				l.Close()
				close(from)
				s.Close()
				running.Wait()
			})
		})
	}
}

// TestBodiesInTime sends the body of a request byte by byte: the connection ends. One that comes with 20 KB a second may be large, and a page may
// last when its body has come.
func TestBodiesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := make(pipes, 1)
		pages := http.NewServeMux()
		pages.HandleFunc("/last", func(w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(w, "%d bytes, ", n)
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
		for _, bytes := range []int{0, 1, 10 << 20} {
			nc := from.dial("10.0.0.1:1")
			go func() {
				fmt.Fprintf(nc, "POST /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", bytes)
				for left := bytes; left > 0; left -= min(left, 20<<10) {
					time.Sleep(time.Second)
					nc.Write(make([]byte, min(left, 20<<10)))
				}
			}()
			if text, err := io.ReadAll(nc); err != nil || !strings.HasSuffix(string(text), fmt.Sprint(bytes, " bytes, an hour")) {
				t.Errorf("a page that lasts, after a body of %d bytes: %q, %v", bytes, text, err)
			}
		}
		close(from)
		<-served
		s.Close()
	})
}

// TestSlowReaderOfAPage writes a megabyte to a reader that takes a piece every 20 seconds, and to one that takes only the first.
func TestSlowReaderOfAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for reads, want := range map[int]int{16: 16 * writePiece, 1: writePiece} {
			near, far := net.Pipe()
			var reader sync.WaitGroup
			reader.Go(func() {
				for range reads {
					time.Sleep(20 * time.Second)
					io.ReadFull(far, make([]byte, writePiece))
				}
			})
			c := boundedConn{Conn: near}
			n, err := c.Write(make([]byte, 16*writePiece))
			if n != want || (err == nil) != (reads == 16) || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("with %d reads: %d bytes, %v", reads, n, err)
			}
			reader.Wait()
			near.Close()
		}
	})
}
