package zktest

import (
	"net"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// door is the proxy's address of one server.
type door struct {
	hub *hub
	l   net.Listener

	// Guarded by hub.mu.
	target        string // the server's address; "" while it is down
	refusing      bool
	stalled       chan struct{} // closed by Resume; nil if not stalled
	conns         map[*conn]bool
	cuts          []*Cut
	counts        Counts
	notifications int
}

func (d *door) accept() {
	for {
		nc, err := d.l.Accept()
		if err != nil {
			return // closed
		}
		if c := d.admit(nc); c != nil {
			d.hub.work.Go(c.serve)
		} else {
			reset(nc)
		}
	}
}

// admit registers a connection, or returns nil if it must be reset.
func (d *door) admit(nc net.Conn) *conn {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	if d.hub.closed || d.refusing || d.target == "" {
		return nil
	}
	c := &conn{door: d, client: nc, gone: make(chan struct{})}
	d.conns[c] = true
	return c
}

// reset closes a connection like a host without a listener on the port.
func reset(nc net.Conn) {
	if tcp, ok := nc.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	nc.Close()
}

// point makes the door lead to another server. "" means none, and breaks the connections.
func (d *door) point(target string) {
	d.hub.mu.Lock()
	d.target = target
	d.hub.mu.Unlock()
	if target == "" {
		d.cutAll(nil)
	}
}

// cutAll breaks the connections that which selects, or all if it is nil. which is called with
// the hub's lock held.
func (d *door) cutAll(which func(*conn) bool) {
	d.hub.mu.Lock()
	defer d.hub.mu.Unlock()
	for c := range d.conns {
		if which == nil || which(c) {
			c.breakLocked()
		}
	}
}

// cutForLocked returns the cut for r, or nil.
func (d *door) cutForLocked(r request) *Cut {
	d.cuts = slices.DeleteFunc(d.cuts, func(c *Cut) bool { return !c.armed })
	if r.op == jute.OpPing {
		return nil
	}
	for _, c := range d.cuts {
		if c.hitLocked(r) {
			return c
		}
	}
	return nil
}
