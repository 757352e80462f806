package server

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/mux"
	"github.com/zkd-project/zkd/jute"
)

// carrier returns a connection that carries those of clients.
func (s *testServer) carrier(t testing.TB, nc net.Conn) *mux.Carrier {
	t.Helper()
	if err := mux.Greet(nc); err != nil {
		t.Fatal(err)
	}
	c := mux.Connect(nc, time.Hour)
	go c.Serve()
	t.Cleanup(func() {
		nc.Close()
		<-c.Done()
	})
	return c
}

// carried returns a client whose connection is carried.
func (s *testServer) carried(t testing.TB, on *mux.Carrier, whose string) *client {
	t.Helper()
	stream, err := on.Open(whose)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Close() })
	return &client{t: t, stream: stream, srv: s, in: newFrames(stream)}
}

func (c *client) began() *client {
	c.t.Helper()
	c.establish(&jute.ConnectRequest{TimeoutMs: 40_000, Password: make([]byte, 16), HasReadOnly: true})
	return c
}

// Sessions on one connection are served as on connections of their own: each has its order, its watches, its words, its place
// among the connections of an address, and its own end.
func TestCarriedSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, "maxClientCnxns=3", "4lw.commands.whitelist=*")
		on := s.carrier(t, s.dial(t, dialOptions{ip: "10.0.0.9"}).nc)
		one, other := s.carried(t, on, "127.0.0.1:5").began(), s.carried(t, on, "unix\n,sid=0x1").began()
		one.create("/a", "1")
		other.ok(jute.OpGetData, get("/a", true))
		one.set("/a", "2")
		if ev := other.must(); ev.Xid != jute.XidNotification || ev.event().Path != "/a" {
			t.Errorf("got %v, want the event", ev)
		}
		for _, c := range []*client{one, other} { // they park, and are woken
			c.ping()
			time.Sleep(time.Second)
			if v, _ := c.get("/a"); v != "2" {
				t.Errorf("read %q", v)
			}
		}
		cons := s.ask(t, "cons", false)
		for _, want := range []string{" /10.0.0.9:", ",for=127.0.0.1:5)", ",for=unix__sid_0x1)"} {
			if !strings.Contains(cons, want) {
				t.Errorf("cons lacks %q:\n%s", want, cons)
			}
		}
		// Their own connection is none of the three of the address.
		last := s.carried(t, on, "").began()
		s.carried(t, on, "").eof("a connection beyond maxClientCnxns")
		last.call(jute.OpCloseSession, nil)
		last.eof("a closed session")
		last.stream.Close()
		synctest.Wait()
		// A word, and no greeting: what is carried carries nothing.
		word := s.carried(t, on, "")
		io.WriteString(word.stream, "ruok")
		if b, err := io.ReadAll(word.stream); string(b) != "imok" || err != nil {
			t.Errorf("ruok: %q, %v", b, err)
		}
		word.stream.Close()
		synctest.Wait()
		nested := s.carried(t, on, "")
		if err := mux.Greet(nested.stream); err == nil {
			t.Error("a carried connection carries others")
		}
		nested.stream.Close()
		// A client that goes away leaves its session.
		one.stream.Close()
		synctest.Wait()
		again := one.resume(t, 40_000)
		if again.session != one.session {
			t.Errorf("session %v, and not %v", again.session, one.session)
		}
		if v, _ := other.get("/a"); v != "2" {
			t.Errorf("read %q", v)
		}
	})
}

// An idle session lives by pings that come in one frame with those of others. That of a client that has sent something since its last ping has to
// come as a request.
func TestGatheredPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		on := s.carrier(t, s.dial(t, dialOptions{}).nc)
		pings, silent := s.carried(t, on, "").began(), s.carried(t, on, "").began()
		enough := func() bool {
			answer := make(chan bool, 1)
			if !pings.stream.(*mux.Stream).Ping(time.Second, func(enough bool) { answer <- enough }) {
				t.Fatal("no ping")
			}
			return <-answer
		}
		if enough() {
			t.Error("the ping of a client with a reader was enough")
		}
		pings.ping()
		silent.ping()
		for range 10 {
			synctest.Wait()
			if time.Sleep(10 * time.Second); !enough() {
				t.Error("the ping of an idle client was not enough")
			}
		}
		silent.eof("a client without pings")
		pings.create("/a", "")
		if enough() {
			t.Error("the ping of a client that has written something was enough")
		}
		time.Sleep(45 * time.Second)
		pings.eof("a client whose pings have ended")
	})
}

// A client that does not read holds up no other one on its connection.
func TestACarriedClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		on := s.carrier(t, s.dial(t, dialOptions{}).nc)
		slow, other := s.carried(t, on, "").began(), s.carried(t, on, "").began()
		other.create("/big", strings.Repeat("x", 100_000))
		for range 20 {
			slow.send(jute.OpGetData, get("/big", false))
		}
		for range 20 {
			other.set("/big", strings.Repeat("y", 50_000))
		}
		for range 20 {
			if r := slow.must(); r.Err != 0 || len(r.body) < 50_000 {
				t.Fatal(r)
			}
		}
	})
}

// When the server stops, the sessions get their answers, and the connection ends with the last of them.
func TestCarriedSessionsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		on := s.carrier(t, s.dial(t, dialOptions{}).nc)
		c := s.carried(t, on, "").began()
		last := c.send(jute.OpCreate, create("/a", "", 0))
		synctest.Wait()
		stopped := make(chan bool)
		go func() {
			s.Close()
			close(stopped)
		}()
		if r := c.await(last); r.Err != 0 {
			t.Error(r)
		}
		c.eof("a session of a server that stops")
		c.stream.Close()
		<-on.Done()
		<-stopped
	})
}

// What is carried by TLS has the identity of the edge's certificate.
func TestCarriedIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startSecure(t, "client.portUnification=true")
		on := s.carrier(t, tls.Client(s.raw(t, s.net), s.client()))
		if who := s.carried(t, on, "").began().whoAmI(); !strings.Contains(who, "x509") || !strings.Contains(who, "CN=app") {
			t.Errorf("the client is %q", who)
		}
	})
}
