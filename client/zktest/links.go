package zktest

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// links is the network between the servers of an ensemble: TCP on loopback, on random ports.
// A server can be disconnected, and messages to a server can be held back.
type links struct {
	mu    sync.Mutex
	ports map[string]string     // the actual address of a configured one
	down  map[int]bool          // servers that are disconnected
	held  map[int]chan struct{} // servers that receive nothing; closed when they receive again
	mute  map[int]bool          // of the disconnected servers, those that are not to notice it
	words map[int]int           // how often a server has received something from another one
	conns map[*linkConn]bool    // those that were dialled or accepted
}

func newLinks() *links {
	return &links{ports: map[string]string{}, down: map[int]bool{}, held: map[int]chan struct{}{}, mute: map[int]bool{}, words: map[int]int{}, conns: map[*linkConn]bool{}}
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

// add registers a connection of server id.
func (n *links) add(nc net.Conn, id int) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down[id] {
		nc.Close()
		return nil, syscall.ECONNRESET
	}
	c := &linkConn{Conn: nc, n: n, id: id, gone: make(chan struct{})}
	n.conns[c] = true
	return c, nil
}

// sever disconnects a server at once.
func (n *links) sever(id int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down[id] = true
	n.breakLocked(func(c *linkConn) bool { return c.id == id })
}

// hold holds back what other servers send to a server.
func (n *links) hold(id int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.holdLocked(id)
}

func (n *links) holdLocked(id int) {
	if n.held[id] == nil {
		n.held[id] = make(chan struct{})
	}
}

// strand disconnects a server without its notice: its ends of the connections stay open.
func (n *links) strand(id int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down[id], n.mute[id] = true, true
	n.holdLocked(id)
	type ends struct{ near, far string }
	others := map[ends]bool{}
	for c := range n.conns {
		if c.id == id {
			others[ends{c.RemoteAddr().String(), c.LocalAddr().String()}] = true
		}
	}
	n.breakLocked(func(c *linkConn) bool { return others[ends{c.LocalAddr().String(), c.RemoteAddr().String()}] })
}

// restore ends sever, hold and strand.
func (n *links) restore(id int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held[id] != nil {
		close(n.held[id])
	}
	delete(n.down, id)
	delete(n.held, id)
	delete(n.mute, id)
}

// heard returns how often a server has received something from another one.
func (n *links) heard(id int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.words[id]
}

// breakLocked closes the ends of connections that which selects.
func (n *links) breakLocked(which func(*linkConn) bool) {
	for c := range n.conns {
		if which(c) {
			c.closeLocked()
		}
	}
}

// linkListener accepts connections for a server, and drops them while it is disconnected.
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
	n    *links
	id   int           // the server at this end
	gone chan struct{} // closed with it
}

// Read reads, and then waits while the data must be held back.
func (c *linkConn) Read(p []byte) (int, error) {
	k, err := c.Conn.Read(p)
	for {
		c.n.mu.Lock()
		held := c.n.held[c.id]
		if held == nil {
			c.n.words[c.id]++
		}
		c.n.mu.Unlock()
		if held == nil {
			return k, err
		}
		select {
		case <-held:
		case <-c.gone:
			return 0, net.ErrClosed
		}
	}
}

// Write writes, or drops the data if the receiver is disconnected.
func (c *linkConn) Write(p []byte) (int, error) {
	c.n.mu.Lock()
	mute := c.n.mute[c.id]
	c.n.mu.Unlock()
	if mute {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Close ends the link.
func (c *linkConn) Close() error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	return c.closeLocked()
}

func (c *linkConn) closeLocked() error {
	if !c.n.conns[c] {
		return net.ErrClosed
	}
	delete(c.n.conns, c)
	close(c.gone)
	return c.Conn.Close()
}
