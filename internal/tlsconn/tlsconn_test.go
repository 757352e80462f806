package tlsconn_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/testing/certs"
	"github.com/zkd-project/zkd/internal/tlsconn"
)

// stream is one direction of a connection. It takes everything at once.
type stream struct {
	mu     sync.Mutex
	more   sync.Cond
	b      bytes.Buffer
	closed bool
	fails  error // of writes
	writes int
	reads  int
}

func newStream() *stream {
	s := &stream{}
	s.more.L = &s.mu
	return s
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.b.Len() == 0 && !s.closed {
		s.more.Wait()
	}
	s.reads++
	return s.b.Read(p)
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	s.more.Broadcast()
	if s.fails != nil {
		return 0, s.fails
	}
	return s.b.Write(p)
}

// take returns what was written and not read.
func (s *stream) take() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.b.Next(s.b.Len()))
}

// end is one end of a connection.
type end struct {
	net.Conn
	in, out *stream
}

func (e end) Read(p []byte) (int, error)       { return e.in.read(p) }
func (e end) Write(p []byte) (int, error)      { return e.out.write(p) }
func (e end) SetWriteDeadline(time.Time) error { return nil }
func (e end) Close() error                     { return nil }

// pair is a connection with its two directions.
type pair struct {
	client         *tls.Conn
	server         *tlsconn.Conn
	toward, toPeer *stream // to the server, to the client
	under          net.Conn
}

// connect makes a connection. The client is of crypto/tls itself.
func connect(t testing.TB, version uint16) *pair {
	t.Helper()
	authority := certs.New(t, "CA")
	pool := x509.NewCertPool()
	pool.AddCert(authority.Cert)
	p := &pair{toward: newStream(), toPeer: newStream()}
	p.under = end{in: p.toward, out: p.toPeer}
	p.server = tlsconn.Server(p.under, &tls.Config{
		Certificates:           []tls.Certificate{authority.Issue("localhost").TLS()},
		SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true, MaxVersion: version,
	})
	p.client = tls.Client(end{in: p.toPeer, out: p.toward}, &tls.Config{RootCAs: pool, ServerName: "localhost"})
	done := make(chan error, 1)
	go func() { done <- p.server.Handshake() }()
	if err := errors.Join(p.client.Handshake(), <-done); err != nil {
		t.Fatal(err)
	}
	return p
}

func bothVersions(t *testing.T, test func(t *testing.T, version uint16)) {
	for _, v := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(v), func(t *testing.T) { test(t, v) })
	}
}

func contents(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}

func TestWriteTakesOneSystemCall(t *testing.T) {
	bothVersions(t, func(t *testing.T, version uint16) {
		for _, c := range []struct{ size, writes int }{
			{1, 1}, {16 << 10, 1}, {16<<10 + 1, 1}, {64 << 10, 1}, {80 << 10, 2}, {1 << 20, 16},
		} {
			p := connect(t, version)
			before := p.toPeer.writes
			if n, err := p.server.Write(contents(c.size)); n != c.size || err != nil {
				t.Fatal(n, err)
			}
			if n := p.toPeer.writes - before; n != c.writes {
				t.Errorf("%d bytes took %d writes, want %d", c.size, n, c.writes)
			}
			got := make([]byte, c.size)
			if _, err := io.ReadFull(p.client, got); err != nil || !bytes.Equal(got, contents(c.size)) {
				t.Errorf("%d bytes arrive as others, or not: %v", c.size, err)
			}
		}
	})
}

func TestReadReturnsAllThatWasReceived(t *testing.T) {
	bothVersions(t, func(t *testing.T, version uint16) {
		p := connect(t, version)
		var want []byte
		for i := range 8 {
			b := fmt.Appendf(nil, "request %d;", i)
			want = append(want, b...)
			if _, err := p.client.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		before := p.toward.reads
		got := make([]byte, 1<<10)
		n, err := p.server.Read(got)
		if err != nil || !bytes.Equal(got[:n], want) {
			t.Errorf("read %q, %v; want %q", got[:n], err, want)
		}
		if n := p.toward.reads - before; n != 1 {
			t.Errorf("that took %d reads", n)
		}
	})
}

// TestReadOfPieces cuts two records at each byte. What is complete is returned without
// waiting for the rest.
func TestReadOfPieces(t *testing.T) {
	bothVersions(t, func(t *testing.T, version uint16) {
		synctest.Test(t, func(t *testing.T) {
			p := connect(t, version)
			for cut, length := 1, 2; cut < length; cut++ {
				p.client.Write([]byte("one"))
				first := p.toward.take()
				p.client.Write([]byte("two"))
				both := append(first, p.toward.take()...)
				length = len(both)

				read := make(chan string)
				go func() {
					for rest := len("onetwo"); rest > 0; {
						got := make([]byte, 100)
						n, err := p.server.Read(got)
						if err != nil {
							t.Errorf("cut at %d: %v", cut, err)
							break
						}
						rest -= n
						read <- string(got[:n])
					}
					close(read)
				}()
				p.toward.write(both[:cut])
				synctest.Wait()
				got := ""
				if cut >= len(first) {
					got = <-read
				}
				p.toward.write(both[cut:])
				for more := range read {
					got += "|" + more
				}
				want := "|onetwo"
				if cut >= len(first) {
					want = "one|two"
				}
				if got != want {
					t.Errorf("cut at %d of %d: read %q, want %q", cut, length, got, want)
				}
			}
		})
	})
}

func TestReadOfTheEnd(t *testing.T) {
	p := connect(t, tls.VersionTLS13)
	p.client.Write([]byte("last"))
	p.client.Close()
	got := make([]byte, 100)
	if n, err := p.server.Read(got); string(got[:n]) != "last" || err != nil && err != io.EOF {
		t.Fatalf("read %q, %v", got[:n], err)
	}
	if n, err := p.server.Read(got); n != 0 || err != io.EOF {
		t.Errorf("then %d, %v; want the end", n, err)
	}
}

func TestReadOfADamagedRecord(t *testing.T) {
	p := connect(t, tls.VersionTLS13)
	p.client.Write([]byte("good"))
	good := p.toward.take()
	p.client.Write([]byte("bad"))
	bad := p.toward.take()
	bad[len(bad)-1] ^= 1
	p.toward.write(append(good, bad...))
	got := make([]byte, 100)
	if n, err := p.server.Read(got); string(got[:n]) != "good" || err != nil {
		t.Fatalf("read %q, %v", got[:n], err)
	}
	if n, err := p.server.Read(got); n != 0 || err == nil {
		t.Errorf("then %d bytes, %v; want an error", n, err)
	}
	if n, err := p.client.Read(got); n != 0 || err == nil {
		t.Errorf("the client reads %d bytes, %v; want an alert", n, err)
	}
}

func TestWriteFails(t *testing.T) {
	p := connect(t, tls.VersionTLS13)
	broken := errors.New("broken")
	p.toPeer.fails = broken
	for _, size := range []int{20 << 10, 1 << 20, 20 << 10, 1} {
		if n, err := p.server.Write(make([]byte, size)); n == size || !errors.Is(err, broken) {
			t.Errorf("a write of %d bytes: %d, %v", size, n, err)
		}
	}
}

// TestBothWays reads and writes at both ends at the same time.
func TestBothWays(t *testing.T) {
	p := connect(t, tls.VersionTLS13)
	want := contents(3 << 20)
	var work sync.WaitGroup
	for _, c := range []net.Conn{p.client, p.server} {
		work.Go(func() {
			for at, size := 0, 1; at < len(want); at, size = at+size, (size*3+1)%(100<<10) {
				size = min(size, len(want)-at)
				if _, err := c.Write(want[at : at+size]); err != nil {
					t.Error(err)
				}
			}
		})
		work.Go(func() {
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
				t.Error("other bytes were read than written, or an error:", err)
			}
		})
	}
	work.Wait()
}

// TestWriteFirst writes before a handshake.
func TestWriteFirst(t *testing.T) {
	p := connect(t, tls.VersionTLS13)
	cert := certs.New(t, "CA").Issue("localhost").TLS()
	s := tlsconn.Server(p.under, &tls.Config{Certificates: []tls.Certificate{cert}})
	done := make(chan error, 1)
	go func() {
		_, err := io.CopyN(io.Discard, tls.Client(end{in: p.toPeer, out: p.toward}, &tls.Config{InsecureSkipVerify: true}), 64<<10)
		done <- err
	}()
	if _, err := s.Write(contents(64 << 10)); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestUnder(t *testing.T) {
	var hello net.Conn
	p := connect(t, tls.VersionTLS13)
	s := tlsconn.Server(p.under, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		hello = h.Conn
		return nil, errors.New("seen")
	}})
	go tls.Client(end{in: p.toPeer, out: p.toward}, &tls.Config{ServerName: "localhost"}).Handshake()
	s.Handshake()
	p.toPeer.mu.Lock()
	p.toPeer.closed = true
	p.toPeer.more.Broadcast()
	p.toPeer.mu.Unlock()
	if got := tlsconn.Under(hello); got != p.under {
		t.Errorf("it is over %v", got)
	}
}

// BenchmarkAnswers writes 64 KiB at a time to a client that reads them.
func BenchmarkAnswers(b *testing.B) {
	for _, name := range []string{"crypto-tls", "tlsconn"} {
		b.Run(name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			cert := certs.New(b, "CA").Issue("localhost").TLS()
			config := &tls.Config{Certificates: []tls.Certificate{cert}, DynamicRecordSizingDisabled: true}
			client, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			nc, err := l.Accept()
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			server := net.Conn(tls.Server(nc, config))
			if name == "tlsconn" {
				server = tlsconn.Server(nc, config)
			}
			go io.Copy(io.Discard, tls.Client(client, &tls.Config{InsecureSkipVerify: true}))
			answers := contents(64 << 10)
			b.SetBytes(int64(len(answers)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := server.Write(answers); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
