package zktest

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// links is the network between the servers of an ensemble: TCP on loopback, on
// ports that nobody has to know. A server can be taken off it.
type links struct {
	mu    sync.Mutex
	ports map[string]string // the address behind a configured one
	down  map[int]bool
	conns map[net.Conn]int // whose it is, of those that have been dialled or accepted
}

func newLinks() *links {
	return &links{ports: map[string]string{}, down: map[int]bool{}, conns: map[net.Conn]int{}}
}

// listen is the server.Options.ListenPeers of a server.
func (n *links) listen(id int) func(network, address string) (net.Listener, error) {
	return func(network, address string) (net.Listener, error) {
		l, err := listenLocal(network, address)
		if err != nil {
			return nil, err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.ports[address] = l.Addr().String()
		return &linkListener{l, n, id}, nil
	}
}

// dial is the server.Options.DialPeer of a server.
func (n *links) dial(id int) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		n.mu.Lock()
		port, down := n.ports[address], n.down[id]
		n.mu.Unlock()
		if port == "" || down {
			return nil, syscall.ECONNREFUSED
		}
		var dialer net.Dialer
		nc, err := dialer.DialContext(ctx, network, port)
		if err != nil {
			return nil, err
		}
		return n.add(nc, id)
	}
}

// add makes a connection known as one of id's.
func (n *links) add(nc net.Conn, id int) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down[id] {
		nc.Close()
		return nil, syscall.ECONNRESET
	}
	c := &linkConn{nc, n}
	n.conns[c] = id
	return c, nil
}

// sever takes a server off the network at once, or puts it back.
func (n *links) sever(id int, down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down[id] = down
	for c, owner := range n.conns {
		if down && owner == id {
			delete(n.conns, c)
			c.(*linkConn).Conn.Close()
		}
	}
}

// linkListener takes connections for a server, and drops them while it is off the
// network.
type linkListener struct {
	net.Listener
	n  *links
	id int
}

// Accept waits for a connection.
func (l *linkListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c, err := l.n.add(nc, l.id); err == nil {
			return c, nil
		}
	}
}

// linkConn is one end of a link.
type linkConn struct {
	net.Conn
	n *links
}

// Close ends the link.
func (c *linkConn) Close() error {
	c.n.mu.Lock()
	delete(c.n.conns, c)
	c.n.mu.Unlock()
	return c.Conn.Close()
}
