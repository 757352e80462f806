package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/certs"
	"github.com/zkd-project/zkd/jute"
)

// secureServer is a server with TLS for clients.
type secureServer struct {
	*testServer
	ca  *certs.Authority
	app certs.Pair // a client's
}

func startSecure(t *testing.T, lines ...string) *secureServer {
	t.Helper()
	dir, ca := t.TempDir(), certs.New(t, "CA")
	lines = append(lines,
		"ssl.keyStore.location="+certs.Write(t, dir, "key.pem", ca.Issue("zk1").PEM(t)),
		"ssl.trustStore.location="+certs.Write(t, dir, "trust.pem", ca.CertPEM()))
	return &secureServer{startServer(t, lines...), ca, ca.Issue("app")}
}

// client is the configuration of a client with the certificate of app.
func (s *secureServer) client() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(s.ca.Cert)
	return &tls.Config{RootCAs: pool, ServerName: "zk1", Certificates: []tls.Certificate{s.app.TLS()}}
}

// raw connects to a port without TLS.
func (s *secureServer) raw(t *testing.T, l *memListener) net.Conn {
	t.Helper()
	nc, err := l.dial("10.0.0.2", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc
}

// ends checks that the server ends a connection without a byte for its client.
func ends(t *testing.T, nc net.Conn) {
	t.Helper()
	if got, err := io.ReadAll(nc); len(got) > 0 || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the server answers %q, %v", got, err)
	}
}

// works opens a session on a connection, writes and reads.
func works(t *testing.T, nc net.Conn) {
	t.Helper()
	in := newFrames(nc)
	send := func(requests ...[]byte) {
		t.Helper()
		var b []byte
		for _, r := range requests {
			var mark int
			b, mark = jute.BeginFrame(b)
			b = jute.EndFrame(append(b, r...), mark)
		}
		if _, err := nc.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	send((&jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16), HasReadOnly: true}).Append(nil))
	frame, err := in.next()
	if err != nil {
		t.Fatal("connect response:", err)
	}
	var session jute.ConnectResponse
	d := jute.NewDecoder(frame)
	if session.Decode(&d); session.SessionID == 0 {
		t.Fatal("no session")
	}
	data := bytes.Repeat([]byte("0123456789"), 20_000) // several records of TLS
	header := func(xid int32, op jute.OpCode) []byte {
		return (&jute.RequestHeader{Xid: xid, Type: op}).Append(nil)
	}
	send((&jute.SetDataRequest{Path: "/", Data: data, Version: -1}).Append(header(1, jute.OpSetData)),
		(&jute.PathWatchRequest{Path: "/"}).Append(header(2, jute.OpGetData)),
		header(3, jute.OpCloseSession))
	for xid := int32(1); xid <= 3; xid++ {
		frame, err := in.next()
		if err != nil {
			t.Fatalf("reply %d: %v", xid, err)
		}
		var h jute.ReplyHeader
		d := jute.NewDecoder(frame)
		if h.Decode(&d); h.Xid != xid || h.Err != 0 {
			t.Fatalf("reply %d: %+v", xid, h)
		}
		if xid == 2 && !bytes.Contains(frame, data) {
			t.Error("the data differs")
		}
	}
	if _, err := in.next(); err != io.EOF {
		t.Errorf("the end of the connection: %v; over TLS, it must be announced", err)
	}
}

// TestPortsWithTLS uses both ports, alone, together and unified.
func TestPortsWithTLS(t *testing.T) {
	for _, lines := range []string{"secureClientPort=2281", "client.portUnification=true", "secureClientPort=2281\nclient.portUnification=true", "secureClientPort=2281\nclientPort=-1"} {
		t.Run(strings.ReplaceAll(lines, "\n", ","), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startSecure(t, lines)
				if strings.Contains(lines, "secure") {
					works(t, tls.Client(s.raw(t, s.secure), s.client()))
				}
				if strings.Contains(lines, "Unification") {
					works(t, tls.Client(s.raw(t, s.net), s.client()))
				}
				if !strings.Contains(lines, "-1") {
					works(t, s.raw(t, s.net))
				}
			})
		})
	}
}

// TestWordsOverTLS asks four-letter words through TLS.
func TestWordsOverTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSecure(t, "secureClientPort=2281")
		for word, want := range map[string]string{"ruok": "imok", "conf": "secureClientPort=2", "cons": "/10.0.0.2:"} {
			nc := tls.Client(s.raw(t, s.secure), s.client())
			if _, err := nc.Write([]byte(word)); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(nc); err != nil || !strings.Contains(string(got), want) {
				t.Errorf("%s: %q, %v", word, got, err)
			}
		}
	})
}

// TestCertificateIdentity has a client whose identity is that of its certificate, and another
// one on the port without TLS.
func TestCertificateIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSecure(t, "client.portUnification=true")
		for _, test := range []struct {
			nc   net.Conn
			want string
		}{
			{tls.Client(s.raw(t, s.net), s.client()), "x509 CN=app"},
			{s.raw(t, s.net), ""},
		} {
			in := newFrames(test.nc)
			b, mark := jute.BeginFrame(nil)
			b = jute.EndFrame((&jute.ConnectRequest{TimeoutMs: 10_000, Password: make([]byte, 16), HasReadOnly: true}).Append(b), mark)
			b, mark = jute.BeginFrame(b)
			b = jute.EndFrame((&jute.RequestHeader{Xid: 1, Type: jute.OpWhoAmI}).Append(b), mark)
			if _, err := test.nc.Write(b); err != nil {
				t.Fatal(err)
			}
			if _, err := in.next(); err != nil {
				t.Fatal(err)
			}
			frame, err := in.next()
			if err != nil {
				t.Fatal(err)
			}
			var h jute.ReplyHeader
			var who jute.WhoAmIResponse
			d := jute.NewDecoder(frame)
			h.Decode(&d)
			who.Decode(&d)
			got := ""
			for _, id := range who.Clients {
				if id.Scheme != "ip" {
					got += id.Scheme + " " + id.User
				}
			}
			if d.Err() != nil || got != test.want {
				t.Errorf("the client is %q, want %q; %v", got, test.want, d.Err())
			}
		}
	})
}

// TestWrongPort has clients that do not speak what their port expects.
func TestWrongPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSecure(t, "secureClientPort=2281")
		for _, first := range []string{"ruok", "\x00\x00\x00\x2c", "GET / HTTP/1.1\r\n\r\n"} {
			nc := s.raw(t, s.secure)
			nc.Write([]byte(first))
			if first[0] == 0 { // told, as it would wait for an answer
				text := make([]byte, 8)
				if _, err := io.ReadFull(nc, text); err != nil || string(text) != "TLS only" {
					t.Errorf("a client is told %q: %v", text, err)
				}
				nc.Close()
				synctest.Wait()
				continue
			}
			ends(t, nc)
		}
		if n := s.logged.FilterFieldKey("error").Len(); n != 3 || !s.said("does not speak TLS") {
			t.Errorf("%d lines: %v", n, s.messages())
		}
		nc := tls.Client(s.raw(t, s.net), s.client())
		if err := nc.Handshake(); err == nil {
			t.Error("TLS on the plain port")
		}
		synctest.Wait()
		if !s.said("is the client's port the secureClientPort?") {
			t.Errorf("log: %v", s.messages())
		}
		works(t, tls.Client(s.raw(t, s.secure), s.client()))
	})
}

// TestComplaintsAreFew breaks many connections: the log has few lines of them.
func TestComplaintsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSecure(t, "secureClientPort=2281")
		for range 1000 {
			nc := s.raw(t, s.secure)
			nc.Write([]byte("\x16garbage, and not a record of TLS"))
			if _, err := io.Copy(io.Discard, nc); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatal(err)
			}
		}
		if n := s.logged.FilterFieldKey("unlogged").Len(); n == 0 || n > 20 {
			t.Errorf("%d lines", n)
		}
	})
}

// TestHalfHandshakes has many clients that begin a handshake and then send nothing. The
// oldest of them make room, all end in time, and another client works meanwhile.
func TestHalfHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, kept = 10_000, 1024
		s := startSecure(t, "secureClientPort=2281")
		open := make([]net.Conn, all)
		for i := range open {
			open[i] = s.raw(t, s.secure)
			open[i].Write([]byte{0x16, 3, 1, 2, 0, 1, 0, 1})
			synctest.Wait()
		}
		if n := s.connections(); n != kept {
			t.Errorf("%d connections are kept, want %d", n, kept)
		}
		ends(t, open[0])
		works(t, tls.Client(s.raw(t, s.secure), s.client()))
		last := open[all-1]
		last.SetReadDeadline(time.Now().Add(4 * time.Second))
		if _, err := last.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the last one before its time: %v", err)
		}
		time.Sleep(2 * time.Second)
		if n := s.connections(); n != 0 {
			t.Errorf("%d connections are left after the time for handshakes", n)
		}
	})
}

// TestSilentClients connect and send nothing.
func TestSilentClients(t *testing.T) {
	for _, lines := range []string{"secureClientPort=2281", "client.portUnification=true"} {
		synctest.Test(t, func(t *testing.T) {
			s := startSecure(t, lines, "ssl.handshakeDetectionTimeoutMillis=3000")
			at := s.secure
			if strings.HasPrefix(lines, "client") {
				at = s.net
			}
			nc, began := s.raw(t, at), time.Now()
			ends(t, nc)
			if took := time.Since(began); took != 3*time.Second {
				t.Errorf("%s: closed after %v", lines, took)
			}
		})
	}
}

// TestHandshakeByBytes sends a client's side of the handshake a byte at a time.
func TestHandshakeByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSecure(t, "secureClientPort=2281")
		works(t, tls.Client(byteByByte{s.raw(t, s.secure)}, s.client()))
	})
}

// byteByByte writes single bytes.
type byteByByte struct{ net.Conn }

func (c byteByByte) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := c.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// TestCloseTellsTLSClients stops a server: clients learn that nothing is missing.
func TestCloseTellsTLSClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSecure(t, "secureClientPort=2281")
		nc := tls.Client(s.raw(t, s.secure), s.client())
		if err := nc.Handshake(); err != nil {
			t.Fatal(err)
		}
		half := s.raw(t, s.secure) // in its handshake
		half.Write([]byte{0x16, 3})
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the client sees %v", err)
		}
		ends(t, half)
	})
}

// TestNoKeys starts no server with TLS that it can't give.
func TestNoKeys(t *testing.T) {
	s := startSecure(t, "secureClientPort=2281")
	os.Remove(s.cfg.ClientTLS.Key.File)
	s.Close()
	again := newTestServer(t, s.opts)
	if err := again.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "TLS for clients") {
		t.Errorf("started: %v", err)
	}
}

// ports are the listeners of a server's clients, by address.
type ports map[string]*memListener

func (p ports) listen(_, addr string) (net.Listener, error) {
	p[addr] = newMemListener()
	return p[addr], nil
}

// TestReconfigOfTheSecurePort adds, moves and removes the secure client port of a server while
// that runs.
func TestReconfigOfTheSecurePort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := certs.New(t, "CA")
		e := startDynamic(t, 3, 3)
		id := e.follower()
		start := func(keys ...string) (*testServer, ports) {
			t.Helper()
			e.stop(id)
			p := make(ports)
			lines := slices.Concat(e.lines, e.serverLines(id), []string{fmt.Sprint("zkd.myid=", id)}, keys)
			s, err := e.tryStart(id, func(o *Options) { o.Listen, o.Config = p.listen, parseConfig(t, e.dir, lines...) })
			if err != nil {
				t.Fatal(err)
			}
			e.settled()
			return s, p
		}
		change := func(secure string) {
			t.Helper()
			line := fmt.Sprintf("server.%[1]d=10.0.0.%[1]d:2888:3888;2181%[2]s", id, secure)
			e.servers[e.leader()].connect(t).ok(jute.OpReconfig, &jute.ReconfigRequest{Joining: line, ConfigID: -1})
			e.settled()
			synctest.Wait()
		}
		s, p := start("ssl.clientAuth=none", "ssl.keyStore.location="+certs.Write(t, t.TempDir(), "key.pem", ca.Issue("zk1").PEM(t)))
		client := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "zk1"}
		client.RootCAs.AddCert(ca.Cert)
		open := func(addr string) net.Conn {
			t.Helper()
			nc, err := p[addr].dial("10.0.0.9", 1<<20)
			if err != nil {
				t.Fatalf("%s: %v", addr, err)
			}
			t.Cleanup(func() { nc.Close() })
			return tls.Client(nc, client)
		}
		closed := func(addr string) bool {
			nc, err := p[addr].dial("10.0.0.9", 1<<20)
			if err == nil {
				nc.Close()
			}
			return err != nil
		}
		if addr := s.SecureAddr(); addr != nil {
			t.Fatalf("there is a secure port at first, %v", addr)
		}
		change(";2281")
		works(t, open("0.0.0.0:2281"))
		before := open("0.0.0.0:2281")
		change(";10.0.0.7:2282")
		works(t, open("10.0.0.7:2282"))
		if !closed("0.0.0.0:2281") {
			t.Error("the port is open where it was, too")
		}
		works(t, before)
		change("")
		if !closed("10.0.0.7:2282") || s.SecureAddr() != nil {
			t.Error("the port is still open, although the members have none")
		}
		s.noErrors(t)

		s, p = start()
		change(";2281")
		if len(p) != 1 || !s.said("the secure client port of this server stays closed") {
			t.Errorf("ports %v without keys: %v", p, s.messages())
		}
	})
}
