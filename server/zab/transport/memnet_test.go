package transport

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/zkd-project/zkd/internal/testing/mempipe"
)

// memNet is an in-memory network whose paths can fail. Everything in it blocks durably, so
// it works in a synctest bubble.
type memNet struct {
	mu        sync.Mutex
	listeners map[string]*memListener
	conns     map[*memConn]struct{}
	port      int
	window    int // bytes that a connection accepts before they are read

	// Taken last, also by holders of the lock of a half, which is taken after mu.
	ways sync.Mutex
	deaf map[[2]string]bool // from, to: sent bytes are held back
	slow map[[2]string]*wire
}

// wire is a path with a limited rate. All connections share it, and bytes pass in the order
// in which they were written.
type wire struct {
	rate int       // bytes per second
	free time.Time // when all written bytes have passed
}

// pass returns the time when n more bytes will have passed.
func (w *wire) pass(n int) time.Time {
	if now := time.Now(); w.free.Before(now) {
		w.free = now
	}
	w.free = w.free.Add(time.Duration(n) * time.Second / time.Duration(w.rate))
	return w.free
}

func newMemNet() *memNet {
	return &memNet{listeners: make(map[string]*memListener), conns: make(map[*memConn]struct{}),
		deaf: make(map[[2]string]bool), slow: make(map[[2]string]*wire), window: 64 << 10}
}

// hold holds back what one host sends to another, or lets it through again.
func (n *memNet) hold(from, to string, on bool) {
	n.ways.Lock()
	n.deaf[[2]string{from, to}] = on
	n.ways.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kickLocked()
}

// blackHole stops all traffic between two hosts.
func (n *memNet) blackHole(a, b string, on bool) {
	n.hold(a, b, on)
	n.hold(b, a, on)
}

func (n *memNet) kickLocked() {
	for c := range n.conns {
		c.In.Kick()
	}
}

// reset breaks all connections between two hosts.
func (n *memNet) reset(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.here == a && c.there == b || c.here == b && c.there == a {
			c.In.Fail(syscall.ECONNRESET)
			c.Out.Fail(syscall.ECONNRESET)
		}
	}
}

// crash makes the connections of a host go nowhere, like a loss of power.
func (n *memNet) crash(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.here == host || c.there == host {
			c.lost.Store(true)
		}
	}
	n.kickLocked()
}

// setSlow limits the rate, in bytes per second.
func (n *memNet) setSlow(from, to string, rate int) {
	n.ways.Lock()
	defer n.ways.Unlock()
	n.slow[[2]string{from, to}] = &wire{rate: rate}
}

func (n *memNet) isDeaf(from, to string) bool {
	n.ways.Lock()
	defer n.ways.Unlock()
	return n.deaf[[2]string{from, to}]
}

// arrival returns when bytes written now arrive.
func (n *memNet) arrival(from, to string, bytes int) time.Time {
	n.ways.Lock()
	defer n.ways.Unlock()
	if w := n.slow[[2]string{from, to}]; w != nil {
		return w.pass(bytes)
	}
	return time.Time{}
}

// listen is a ListenFunc. The host of the address is the server's.
func (n *memNet) listen(_, addr string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[addr] != nil {
		return nil, syscall.EADDRINUSE
	}
	l := &memListener{n: n, addr: addr, queue: make(chan net.Conn, 64), closed: make(chan struct{})}
	n.listeners[addr] = l
	return l, nil
}

// dialer returns a DialFunc for a host.
func (n *memNet) dialer(host string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		to, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		if n.isDeaf(host, to) || n.isDeaf(to, host) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return n.connect(host, to, addr)
	}
}

func (n *memNet) connect(from, to, addr string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.listeners[addr]
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	n.port++
	near := memAddr(fmt.Sprintf("%s:%d", from, 40_000+n.port))
	lost := new(atomic.Bool)
	ends := func(c *mempipe.Conn, here, there string) *memConn {
		c.Out.Slow = func(bytes int) time.Time { return n.arrival(here, there, bytes) }
		c.Out.Deaf = func() bool { return lost.Load() || n.isDeaf(here, there) }
		return &memConn{Conn: c, n: n, here: here, there: there, lost: lost}
	}
	up, down := mempipe.New(near, memAddr(addr), n.window)
	a, b := ends(up, from, to), ends(down, to, from)
	select {
	case l.queue <- b:
	default:
		return nil, syscall.ECONNREFUSED
	}
	n.conns[a], n.conns[b] = struct{}{}, struct{}{}
	return a, nil
}

type memAddr string

func (memAddr) Network() string  { return "mem" }
func (a memAddr) String() string { return string(a) }

type memListener struct {
	n      *memNet
	addr   string
	queue  chan net.Conn
	closed chan struct{}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	if l.n.listeners[l.addr] != l {
		return nil
	}
	delete(l.n.listeners, l.addr)
	close(l.closed)
	for {
		select {
		case c := <-l.queue:
			c.(*memConn).In.Fail(syscall.ECONNRESET)
			c.(*memConn).Out.Fail(syscall.ECONNRESET)
		default:
			return nil
		}
	}
}

func (l *memListener) Addr() net.Addr { return memAddr(l.addr) }

// memConn is one end of a connection.
type memConn struct {
	*mempipe.Conn
	n           *memNet
	here, there string
	lost        *atomic.Bool // for both ends: the machine at one of them is gone
}

func (c *memConn) Close() error {
	c.n.mu.Lock()
	delete(c.n.conns, c)
	c.n.mu.Unlock()
	return c.Conn.Close()
}
