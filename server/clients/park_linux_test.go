package clients

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// listening returns Clients with local sessions and a port, that are closed at the end.
func listening(t *testing.T) *Clients {
	t.Helper()
	s := newLimitedClients(t)
	if err := s.ports.Listen("127.0.0.1", 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(s) })
	return s
}

func closeAll(s *Clients) {
	select {
	case <-s.stopping:
	default:
		s.Refuse()
	}
	s.Close(time.Minute)
}

// dialIn opens a session over TCP, and sends a ping.
func dialIn(t *testing.T, s *Clients) *limitedClient {
	t.Helper()
	nc, err := net.Dial("tcp", s.ports.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	c := &limitedClient{t, nc}
	if !c.begin() {
		t.Fatal("no session")
	}
	c.answers(jute.XidPing)
	return c
}

// allParked waits until all connections are parked.
func allParked(s *Clients) []*conn {
	for {
		list := s.all()
		parked := 0
		for _, c := range list {
			c.line.Lock()
			if c.parked {
				parked++
			}
			c.line.Unlock()
		}
		if parked == len(list) {
			return list
		}
		runtime.Gosched()
	}
}

func (c *limitedClient) answers(xid int32) {
	c.t.Helper()
	frame := pathFrame(xid, jute.OpExists, "/none", false)
	if xid == jute.XidPing {
		h := jute.RequestHeader{Xid: xid, Type: jute.OpPing}
		frame = h.Append(nil)
	}
	c.write(frame)
	if got, _ := c.reply(); got != xid {
		c.t.Fatalf("reply to %d, want %d", got, xid)
	}
}

// A connection is parked by each ping. It is not parked by other
// requests, as it would be if the next one had to start a reader.
func TestPark(t *testing.T) {
	s := listening(t)
	client := dialIn(t, s)
	c := allParked(s)[0]
	for xid := range int32(100) {
		client.answers(xid + 1)
		if c.line.Lock(); c.parked {
			t.Error("parked by a read")
		}
		c.line.Unlock()
		client.answers(jute.XidPing)
		allParked(s)
		c.line.Lock()
		if !c.frames.Released() {
			t.Error("a parked connection has a read buffer")
		}
		c.line.Unlock()
		client.answers(jute.XidPing)
		allParked(s)
	}
}

// A part of a request keeps the reader.
func TestParkKeepsBytes(t *testing.T) {
	s := listening(t)
	client := dialIn(t, s)
	allParked(s)
	ping := []byte{0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11}
	for cut := 1; cut < len(ping); cut++ {
		client.nc.Write(append(append([]byte{}, ping...), ping[:cut]...))
		client.reply()
		client.nc.Write(ping[cut:])
		if xid, _ := client.reply(); xid != jute.XidPing {
			t.Fatalf("cut after %d: reply to %d", cut, xid)
		}
		allParked(s)
	}
}

// Whatever ends a connection ends a parked one, completely.
func TestParkedConnectionEnds(t *testing.T) {
	last := jute.RequestHeader{Xid: 77}
	for name, end := range map[string]func(s *Clients, c *conn, client *limitedClient){
		"client closes": func(_ *Clients, _ *conn, client *limitedClient) { client.nc.Close() },
		"client breaks": func(_ *Clients, _ *conn, client *limitedClient) {
			client.nc.(*net.TCPConn).SetLinger(0)
			client.nc.Close()
		},
		"kill":           func(s *Clients, c *conn, _ *limitedClient) { s.Kill(c.line.Origin()) },
		"drain":          func(_ *Clients, c *conn, _ *limitedClient) { c.line.drain() },
		"end":            func(_ *Clients, c *conn, _ *limitedClient) { c.endSession() },
		"kill and drain": func(_ *Clients, c *conn, _ *limitedClient) { c.kill(); c.line.drain(); c.kill() },
		"last reply": func(_ *Clients, c *conn, client *limitedClient) {
			c.line.reply(last.Xid, 0, 0)
			c.line.endAfterFlush()
			if xid, _ := client.reply(); xid != last.Xid {
				client.t.Errorf("reply to %d, want %d", xid, last.Xid)
			}
		},
		"session expires":    func(s *Clients, _ *conn, _ *limitedClient) { s.Tick(time.Hour) },
		"interlude":          func(s *Clients, _ *conn, _ *limitedClient) { s.lines.EndEarlier(0) },
		"everything at once": func(s *Clients, c *conn, client *limitedClient) { endAtOnce(s, c, client) },
		"server closes":      func(s *Clients, _ *conn, _ *limitedClient) { closeAll(s) },
	} {
		t.Run(name, func(t *testing.T) {
			s := listening(t)
			client := dialIn(t, s)
			c := allParked(s)[0]
			end(s, c, client)
			if _, err := client.nc.Read(make([]byte, 1)); err == nil {
				t.Error("the client gets more bytes")
			}
			client.nc.Close()
			s.running.Wait()
			if n := s.register.Len(); n != 0 {
				t.Errorf("%d connections are left", n)
			}
		})
	}
}

func endAtOnce(s *Clients, c *conn, client *limitedClient) {
	var all sync.WaitGroup
	for _, end := range []func(){c.kill, c.line.drain, c.line.endAfterFlush, func() { client.nc.Close() }, func() { s.unpark(c.line.Origin()) }, func() { s.unpark(c.line.Origin()) }} {
		all.Go(end)
	}
	all.Wait()
}

// A connection that ended before it could be parked is not parked.
func TestParkAfterTheEnd(t *testing.T) {
	for name, end := range map[string]func(*conn){
		"kill":   (*conn).kill,
		"drain":  func(c *conn) { c.line.drain() },
		"end":    func(c *conn) { c.line.endAfterFlush() },
		"closed": func(c *conn) { c.socket.nc.Close() },
	} {
		s := listening(t)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		peer, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		nc, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c := newConn(&s.shared, nc, plainPort)
		end(c)
		if c.park() {
			t.Errorf("%s: parked", name)
		}
		if err := c.read(); !endOfConnection(err) {
			t.Errorf("%s: %v", name, err)
		}
		nc.Close()
		peer.Close()
		l.Close()
	}
}

// Many clients ping, read, pause and leave, while others end their connections.
func TestParkedConnectionsUnderLoad(t *testing.T) {
	s := listening(t)
	seed := seeds.First(t)
	var clients sync.WaitGroup
	for i := range 20 {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		clients.Go(func() {
			for range 5 {
				if err := visit(s, rng); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { clients.Wait(); close(ended) }()
	for i := 0; ; i++ {
		for j, c := range s.all() {
			s.unpark(c.line.Origin()) // as by a late report
			if (i+j)%500 == 0 {
				c.kill()
			}
		}
		select {
		case <-ended:
			closeAll(s)
			return
		default:
			runtime.Gosched()
		}
	}
}

// visit is one connection of TestParkedConnectionsUnderLoad. The server may end it at any time.
func visit(s *Clients, rng *rand.Rand) error {
	nc, err := net.Dial("tcp", s.ports.Addr().String())
	if err != nil {
		return err
	}
	defer nc.Close()
	c := &limitedClient{nc: nc}
	if !c.begin() {
		return nil
	}
	for range rng.IntN(50) {
		n := rng.IntN(4)
		ping := jute.RequestHeader{Xid: jute.XidPing, Type: jute.OpPing}
		frames := append(numbered(n, "/none"), ping.Append(nil))
		c.write(frames...)
		for i := range n + 1 {
			b, err := c.read()
			if err != nil {
				if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err) {
					return nil
				}
				return err
			}
			var h jute.ReplyHeader
			d := jute.NewDecoder(b)
			h.Decode(&d)
			want := int32(i + 1)
			if i == n {
				want = jute.XidPing
			}
			if h.Xid != want {
				return fmt.Errorf("reply to %d, want %d", h.Xid, want)
			}
		}
	}
	return nil
}
