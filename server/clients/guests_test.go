package clients

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
)

// TestGuests connects guests: their identities are those that they have proved, a refused one is closed, and nobody is let in
// when the server stops.
func TestGuests(t *testing.T) {
	s := newLimitedClients(t, "zkd.limit.few=address 10.0.0.7 connections=1")
	g := Guest{Door: "http", Address: netip.MustParseAddrPort("10.0.0.7:4711"), Secure: true,
		Credentials: auth.NewCredentials(jute.ID{Scheme: "ip", ID: "10.0.0.7"}, jute.ID{Scheme: "digest", ID: "ann:hash"})}
	theirs, err := s.Connect(&g)
	if err != nil {
		t.Fatal(err)
	}
	c := s.all()[0]
	who := c.author(nil)
	if c.identity.name() != "digest:ann" || who.door != "http" || who.ip != "10.0.0.7" || !c.socket.secure.Load() || c.socket.remotePort() != g.Address {
		t.Errorf("the guest is %s, %+v, from %v", c.identity.name(), who, c.socket.remotePort())
	}
	refused, err := s.Connect(&g)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := refused.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("one too many: %v, want EOF", err)
	}
	theirs.Close()
	s.Refuse()
	if _, err := s.Connect(&g); !errors.Is(err, net.ErrClosed) {
		t.Errorf("while the server stops: %v", err)
	}
	s.running.Wait()
	if n := len(s.all()); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

// TestEndOfAGuest has no line in the log: a guest goes as other clients do.
func TestEndOfAGuest(t *testing.T) {
	theirs, ours := net.Pipe()
	ours.Close()
	_, err := ours.Read(make([]byte, 1))
	if !endOfConnection(err) {
		t.Errorf("closed here: %v", err)
	}
	if _, err := theirs.Read(make([]byte, 1)); !endOfConnection(err) {
		t.Errorf("closed there: %v", err)
	}
}
