package clients

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/internal/mux"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/limits"
)

// carrying returns the connection of an edge, with these credentials if there are any, and its other side.
func carrying(t *testing.T, s *Clients, creds *auth.Credentials) (c *conn, near net.Conn, edge *mux.Carrier) {
	t.Helper()
	near, far := net.Pipe()
	c = newConn(&s.shared, far, plainPort)
	if creds != nil {
		c.identity.set(creds, s.now())
	}
	s.enter(c)
	if err := mux.Greet(near); err != nil {
		t.Fatal(err)
	}
	edge = mux.Connect(near, time.Hour)
	go edge.Serve()
	return c, near, edge
}

// What a connection carries has its identities while they last. When one has ended, it carries no others.
func TestCarriedIdentitiesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLimitedClients(t)
		app := auth.Proof{IDs: []jute.ID{{Scheme: "x509", ID: "CN=app"}}, Until: time.Now().Add(5 * time.Second).UnixMilli()}
		creds, err := auth.NewCredentials(jute.ID{Scheme: "ip", ID: "10.0.0.7"}).With(app)
		if err != nil {
			t.Fatal(err)
		}
		c, _, edge := carrying(t, s, creds)
		first, err := edge.Open("a")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, other := range s.all() {
			if other != c && (other.identity.name() != "x509:CN=app" || other.carriedFor != "a") {
				t.Errorf("the client is %q for %q", other.identity.name(), other.carriedFor)
			}
		}
		if n := len(s.all()); n != 2 {
			t.Errorf("%d connections", n)
		}
		time.Sleep(5 * time.Second)
		late, err := edge.Open("b")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := late.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("a stream after the end of the identity: %d, %v", n, err)
		}
		if _, err := edge.Open("c"); err == nil {
			t.Error("the connection takes more streams")
		}
		late.Close()
		first.Close()
		<-edge.Done()
		s.Refuse()
		s.running.Wait()
	})
}

// A ping that may have consequences has to come as a request.
func TestGatheredPingWithConsequences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, change := range map[string]func(s *Clients, c *conn){
			"none":                     func(*Clients, *conn) {},
			"the identity has ended":   func(_ *Clients, c *conn) { c.identity.ends = -1 },
			"the weights have changed": func(_ *Clients, c *conn) { c.weighed = weighed{} },
			"there are limits": func(s *Clients, _ *conn) {
				s.rules.table.Store(limits.New(nil, func(string) bool { return true }))
			},
			"other schemes are enforced": func(s *Clients, _ *conn) {
				cfg := *s.live.Load()
				cfg.EnforceAuth, cfg.EnforceAuthSchemes = true, []string{"sasl"}
				s.live.Store(&cfg)
			},
			"the connection ends": func(_ *Clients, c *conn) {
				c.line.Lock()
				c.line.Outbox.End(false)
				c.line.Unlock()
			},
		} {
			s := newLimitedClients(t)
			_, near, edge := carrying(t, s, nil)
			stream, err := edge.Open("a")
			if err != nil {
				t.Fatal(err)
			}
			client := &limitedClient{t, stream}
			if !client.begin() {
				t.Fatal("no session")
			}
			h := jute.RequestHeader{Xid: jute.XidPing, Type: jute.OpPing}
			client.write(h.Append(nil))
			client.reply()
			synctest.Wait()
			for _, c := range s.all() {
				if c.carriedFor == "a" {
					change(s, c)
					if enough := c.pinged(); enough != (name == "none") {
						t.Errorf("%s: enough: %v", name, enough)
					}
				}
			}
			near.Close()
			<-edge.Done()
			closeAll(s)
		}
	})
}
