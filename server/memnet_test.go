package server

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// memListener is a listener whose connections are in memory. All its operations block
// durably, so it works in a synctest bubble.
type memListener struct {
	mu     sync.Mutex
	change sync.Cond
	queue  []net.Conn
	closed bool
	port   int // of the last client
}

func newMemListener() *memListener {
	l := &memListener{port: 10_000}
	l.change.L = &l.mu
	return l
}

func (l *memListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.change.Wait()
	}
	if l.closed {
		return nil, net.ErrClosed
	}
	nc := l.queue[0]
	l.queue = l.queue[1:]
	return nc, nil
}

func (l *memListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, nc := range l.queue {
		nc.Close()
	}
	l.change.Broadcast()
	return nil
}

func (l *memListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 2181} }

// dial connects from an address. Each direction holds up to window bytes that
// the other side has not read.
func (l *memListener) dial(ip string, window int) (*memConn, error) {
	near, far := l.pair(ip, window)
	return near, l.accept(far)
}

// pair makes the two ends of a connection from an address.
func (l *memListener) pair(ip string, window int) (near, far *memConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.port++
	here := &net.TCPAddr{IP: net.ParseIP(ip), Port: l.port}
	up, down := newHalf(window), newHalf(window)
	return &memConn{in: down, out: up, local: here, remote: l.Addr()}, &memConn{in: up, out: down, local: l.Addr(), remote: here}
}

// accept queues the far end of a connection.
func (l *memListener) accept(far net.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return syscall.ECONNREFUSED
	}
	l.queue = append(l.queue, far)
	l.change.Broadcast()
	return nil
}

// half is one direction of a connection.
type half struct {
	mu       sync.Mutex
	change   sync.Cond
	buf      []byte
	head     int // of buf: the bytes before it have been read
	window   int
	slow     func(n int) time.Time // returns when n bytes written now arrive; nil for at once
	way      []underway            // of the bytes in buf, while slow
	ended    bool                  // no more will be written
	unread   bool                  // the reader has gone
	deadline [2]time.Time
	timer    [2]*time.Timer
}

const (
	readSide = iota
	writeSide
)

// underway records when bytes arrive.
type underway struct {
	bytes int
	at    time.Time
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
	return len(h.buf) - h.head
}

// passLocked records when n bytes written now arrive.
func (h *half) passLocked(n int) {
	var at time.Time
	if h.slow != nil {
		at = h.slow(n)
	}
	if at.IsZero() && len(h.way) == 0 {
		return
	}
	h.way = append(h.way, underway{n, at})
	time.AfterFunc(time.Until(at), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.change.Broadcast()
	})
}

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

func newHalf(window int) *half {
	h := &half{window: window}
	h.change.L = &h.mu
	return h
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
	h.deadline[side] = t
	if !t.IsZero() {
		h.timer[side] = time.AfterFunc(time.Until(t), func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.change.Broadcast()
		})
	}
	h.change.Broadcast()
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		arrived := h.arrivedLocked()
		switch {
		case h.unread:
			return 0, net.ErrClosed
		case h.late(readSide):
			return 0, os.ErrDeadlineExceeded
		case arrived > 0:
			n := copy(p, h.buf[h.head:h.head+arrived])
			h.leftLocked(n)
			if h.head += n; h.head == len(h.buf) {
				h.buf, h.head = h.buf[:0], 0
			}
			h.change.Broadcast()
			return n, nil
		case h.ended && len(h.buf) == h.head:
			return 0, io.EOF
		}
		h.change.Wait()
	}
}

func (h *half) write(p []byte) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(p) > 0 {
		room := h.window - (len(h.buf) - h.head)
		switch {
		case h.ended:
			return n, net.ErrClosed
		case h.late(writeSide):
			return n, os.ErrDeadlineExceeded
		case h.unread:
			return n, syscall.EPIPE
		case room > 0:
			k := min(room, len(p))
			if h.slow != nil {
				k = min(k, 4<<10)
			}
			h.passLocked(k)
			if h.head > h.window {
				h.buf, h.head = h.buf[:copy(h.buf, h.buf[h.head:])], 0
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

// drained waits until all that was written has been read.
func (h *half) drained() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.buf) > h.head && !h.unread {
		h.change.Wait()
	}
}

func (h *half) end(reader bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if reader {
		h.unread = true
	} else {
		h.ended = true
	}
	h.change.Broadcast()
}

// memConn is one end of a connection in memory.
type memConn struct {
	in, out       *half
	local, remote net.Addr
}

func (c *memConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *memConn) Write(p []byte) (int, error) { return c.out.write(p) }

func (c *memConn) Close() error {
	c.in.setDeadline(readSide, time.Time{}) // stops the timers
	c.out.setDeadline(writeSide, time.Time{})
	c.in.end(true)
	return c.CloseWrite()
}

// CloseWrite tells the other side that no more bytes follow.
func (c *memConn) CloseWrite() error {
	c.out.end(false)
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

func (c *memConn) String() string { return fmt.Sprintf("%v->%v", c.local, c.remote) }
