package transport

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
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
		c.in.kick()
	}
}

// reset breaks all connections between two hosts.
func (n *memNet) reset(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.here == a && c.there == b || c.here == b && c.there == a {
			c.in.fail(syscall.ECONNRESET)
			c.out.fail(syscall.ECONNRESET)
		}
	}
}

// crash makes the connections of a host go nowhere, like a loss of power.
func (n *memNet) crash(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.here == host || c.there == host {
			c.in.lost.Store(true)
			c.out.lost.Store(true)
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
	up, down := newHalf(n, from, to), newHalf(n, to, from)
	a := &memConn{n: n, here: from, there: to, in: down, out: up, local: near, remote: memAddr(addr)}
	b := &memConn{n: n, here: to, there: from, in: up, out: down, local: memAddr(addr), remote: near}
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
			c.(*memConn).in.fail(syscall.ECONNRESET)
			c.(*memConn).out.fail(syscall.ECONNRESET)
		default:
			return nil
		}
	}
}

func (l *memListener) Addr() net.Addr { return memAddr(l.addr) }

// half is one direction of a connection.
type half struct {
	n        *memNet
	lost     atomic.Bool // the machine at one end is gone
	from, to string

	mu       sync.Mutex
	change   sync.Cond
	buf      []byte
	head     int        // offset in buf: bytes before it have been read
	way      []underway // of the bytes in buf, on a slow path
	ended    bool       // no more will be written
	err      error      // for both sides
	deadline [2]time.Time
	timer    [2]*time.Timer
}

// underway records when bytes arrive.
type underway struct {
	bytes int
	at    time.Time
}

const (
	readSide = iota
	writeSide
)

func newHalf(n *memNet, from, to string) *half {
	h := &half{n: n, from: from, to: to}
	h.change.L = &h.mu
	return h
}

func (h *half) kick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.change.Broadcast()
}

func (h *half) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
	}
	h.change.Broadcast()
}

func (h *half) late(side int) bool {
	return !h.deadline[side].IsZero() && !time.Now().Before(h.deadline[side])
}

func (h *half) setDeadline(side int, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer[side] != nil {
		h.timer[side].Stop()
	}
	if h.deadline[side] = t; !t.IsZero() {
		h.timer[side] = time.AfterFunc(time.Until(t), h.kick)
	}
	h.change.Broadcast()
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		arrived := h.arrivedLocked()
		switch {
		case h.err != nil:
			return 0, h.err
		case h.late(readSide):
			return 0, os.ErrDeadlineExceeded
		case h.lost.Load() || h.n.isDeaf(h.from, h.to):
		case arrived > 0:
			n := copy(p, h.buf[h.head:h.head+arrived])
			if h.head += n; h.head > len(h.buf)/2 {
				h.buf, h.head = h.buf[:copy(h.buf, h.buf[h.head:])], 0
			}
			h.leftLocked(n)
			h.change.Broadcast()
			return n, nil
		case h.ended && h.waitingLocked() == 0:
			return 0, io.EOF
		}
		h.change.Wait()
	}
}

// arrivedLocked returns how many bytes can be read now.
func (h *half) arrivedLocked() (n int) {
	now := time.Now()
	for _, u := range h.way {
		if u.at.After(now) {
			return n
		}
		n += u.bytes
	}
	return h.waitingLocked()
}

// waitingLocked returns how many bytes have not been read.
func (h *half) waitingLocked() int { return len(h.buf) - h.head }

// leftLocked records that n bytes have been read.
func (h *half) leftLocked(n int) {
	for n > 0 && len(h.way) > 0 {
		k := min(n, h.way[0].bytes)
		if h.way[0].bytes -= k; h.way[0].bytes == 0 {
			h.way = h.way[1:]
		}
		n -= k
	}
}

// packet is how many bytes a slow path passes at a time.
const packet = 4 << 10

func (h *half) write(p []byte) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(p) > 0 {
		switch {
		case h.err != nil:
			return n, h.err
		case h.late(writeSide):
			return n, os.ErrDeadlineExceeded
		case h.ended:
			return n, net.ErrClosed
		case h.waitingLocked() < h.n.window:
			k := min(h.n.window-h.waitingLocked(), len(p), packet)
			if at := h.n.arrival(h.from, h.to, k); !at.IsZero() || len(h.way) > 0 {
				h.way = append(h.way, underway{k, at})
				time.AfterFunc(time.Until(at), h.kick)
			}
			h.buf = append(h.buf, p[:k]...)
			p, n = p[k:], n+k
			h.change.Broadcast()
			continue
		}
		h.change.Wait()
	}
	return n, nil
}

// memConn is one end of a connection.
type memConn struct {
	n             *memNet
	here, there   string
	in, out       *half
	local, remote memAddr
}

func (c *memConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *memConn) Write(p []byte) (int, error) { return c.out.write(p) }

func (c *memConn) Close() error {
	c.n.mu.Lock()
	delete(c.n.conns, c)
	c.n.mu.Unlock()
	c.SetDeadline(time.Time{})
	c.in.fail(net.ErrClosed)
	c.out.mu.Lock()
	c.out.ended = true
	c.out.change.Broadcast()
	c.out.mu.Unlock()
	return nil
}

func (c *memConn) LocalAddr() net.Addr  { return c.local }
func (c *memConn) RemoteAddr() net.Addr { return c.remote }

func (c *memConn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *memConn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(readSide, t)
	return nil
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(writeSide, t)
	return nil
}
