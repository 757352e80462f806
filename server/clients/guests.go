package clients

import (
	"net"
	"net/netip"
	"sync"

	"github.com/zkd-project/zkd/server/auth"
)

// Guest is a client that does not come by the ports for clients, but over HTTP.
type Guest struct {
	Door        string // by which it comes, for the audit log
	Address     netip.AddrPort
	Secure      bool              // it came over TLS
	Credentials *auth.Credentials // which Proofs has proved
	// Visits: the session is local to this server, and so owns no ephemerals.
	Visits bool
}

// guests lets nobody in when the server stops.
type guests struct {
	mu     sync.Mutex
	closed bool
}

func (g *guests) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Connect connects a guest. It speaks the protocol on what Connect returns, as on a socket, and has to read all the
// time. Whatever limits connections counts it; a refused one is closed.
func (s *Clients) Connect(g *Guest) (net.Conn, error) {
	s.guests.mu.Lock()
	defer s.guests.mu.Unlock()
	if s.guests.closed {
		return nil, net.ErrClosed
	}
	theirs, ours := net.Pipe()
	c := newConn(&s.shared, guestConn{ours, net.TCPAddrFromAddrPort(g.Address)}, plainPort)
	c.door = g.Door
	c.identity.set(g.Credentials, s.now())
	c.socket.secure.Store(g.Secure)
	if g.Visits {
		c.line.Visit()
	}
	s.enter(c)
	return theirs, nil
}

// guestConn is the server's end of a guest's connection.
type guestConn struct {
	net.Conn
	remote net.Addr
}

func (c guestConn) RemoteAddr() net.Addr { return c.remote }
