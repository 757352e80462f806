// Package mempipe has connections in memory. All their operations block durably, so they work in
// bubbles of testing/synctest.
package mempipe

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Half is one direction of a connection.
type Half struct {
	// Slow returns when n bytes written now arrive, in pieces of at most [Packet]: at once if that is the zero time,
	// or Slow is nil.
	Slow func(n int) time.Time
	// Deaf reports whether nothing arrives now. Kick has it asked again.
	Deaf func() bool

	mu       sync.Mutex
	change   sync.Cond
	buf      []byte
	head     int // of buf: the bytes before it have been read
	window   int
	way      []underway // of the bytes in buf, while slow
	ended    bool       // no more will be written
	unread   bool       // the reader has gone
	err      error      // for both sides
	deadline [2]time.Time
	timer    [2]*time.Timer
}

const (
	readSide = iota
	writeSide
)

// Packet is how many bytes a slow direction passes at a time.
const Packet = 4 << 10

// underway records when bytes arrive.
type underway struct {
	bytes int
	at    time.Time
}

func newHalf(window int) *Half {
	h := &Half{window: window}
	h.change.L = &h.mu
	return h
}

// Kick has those that wait look again.
func (h *Half) Kick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.change.Broadcast()
}

// Fail ends the direction for both sides with an error, unless it has one.
func (h *Half) Fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
	}
	h.change.Broadcast()
}

// Drained waits until all that was written has been read.
func (h *Half) Drained() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.waitingLocked() > 0 && !h.unread {
		h.change.Wait()
	}
}

// end ends the direction for one side.
func (h *Half) end(side int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if side == readSide {
		h.unread = true
	} else {
		h.ended = true
	}
	h.change.Broadcast()
}

// waitingLocked returns how many bytes have not been read.
func (h *Half) waitingLocked() int { return len(h.buf) - h.head }

// arrivedLocked returns how many bytes can be read now.
func (h *Half) arrivedLocked() (n int) {
	now := time.Now()
	for _, u := range h.way {
		if u.at.After(now) {
			return n
		}
		n += u.bytes
	}
	return h.waitingLocked()
}

// passLocked records when n bytes written now arrive.
func (h *Half) passLocked(n int) {
	var at time.Time
	if h.Slow != nil {
		at = h.Slow(n)
	}
	if at.IsZero() && len(h.way) == 0 {
		return
	}
	h.way = append(h.way, underway{n, at})
	time.AfterFunc(time.Until(at), h.Kick)
}

// leftLocked records that n bytes have been read.
func (h *Half) leftLocked(n int) {
	for n > 0 && len(h.way) > 0 {
		k := min(n, h.way[0].bytes)
		if h.way[0].bytes -= k; h.way[0].bytes == 0 {
			h.way = h.way[1:]
		}
		n -= k
	}
}

func (h *Half) late(side int) bool {
	return !h.deadline[side].IsZero() && !time.Now().Before(h.deadline[side])
}

func (h *Half) setDeadline(side int, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer[side] != nil {
		h.timer[side].Stop()
	}
	if h.deadline[side] = t; !t.IsZero() {
		h.timer[side] = time.AfterFunc(time.Until(t), h.Kick)
	}
	h.change.Broadcast()
}

func (h *Half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		arrived := h.arrivedLocked()
		switch {
		case h.err != nil:
			return 0, h.err
		case h.unread:
			return 0, net.ErrClosed
		case h.late(readSide):
			return 0, os.ErrDeadlineExceeded
		case h.Deaf != nil && h.Deaf():
		case arrived > 0:
			n := copy(p, h.buf[h.head:h.head+arrived])
			h.leftLocked(n)
			if h.head += n; h.head == len(h.buf) {
				h.buf, h.head = h.buf[:0], 0
			}
			h.change.Broadcast()
			return n, nil
		case h.ended && h.waitingLocked() == 0:
			return 0, io.EOF
		}
		h.change.Wait()
	}
}

func (h *Half) write(p []byte) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(p) > 0 {
		room := h.window - h.waitingLocked()
		switch {
		case h.err != nil:
			return n, h.err
		case h.ended:
			return n, net.ErrClosed
		case h.late(writeSide):
			return n, os.ErrDeadlineExceeded
		case h.unread:
			return n, syscall.EPIPE
		case room > 0:
			k := min(room, len(p))
			if h.Slow != nil {
				k = min(k, Packet)
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

// Conn is one end of a connection.
type Conn struct {
	In, Out       *Half
	local, remote net.Addr
}

// New returns the two ends of a connection. Each direction holds up to window bytes that
// the other side has not read.
func New(near, far net.Addr, window int) (a, b *Conn) {
	up, down := newHalf(window), newHalf(window)
	return &Conn{In: down, Out: up, local: near, remote: far}, &Conn{In: up, Out: down, local: far, remote: near}
}

func (c *Conn) Read(p []byte) (int, error)  { return c.In.read(p) }
func (c *Conn) Write(p []byte) (int, error) { return c.Out.write(p) }

// Close ends both directions for this side.
func (c *Conn) Close() error {
	c.SetDeadline(time.Time{}) // stops the timers
	c.In.end(readSide)
	return c.CloseWrite()
}

// CloseWrite tells the other side that no more bytes follow.
func (c *Conn) CloseWrite() error {
	c.Out.end(writeSide)
	return nil
}

func (c *Conn) LocalAddr() net.Addr  { return c.local }
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

func (c *Conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *Conn) SetReadDeadline(t time.Time) error {
	c.In.setDeadline(readSide, t)
	return nil
}

func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.Out.setDeadline(writeSide, t)
	return nil
}

func (c *Conn) String() string { return fmt.Sprintf("%v->%v", c.local, c.remote) }
