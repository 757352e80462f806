package mux

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// idleBuffer is the largest buffer that a stream keeps while nothing is in it.
const idleBuffer = 1 << 10

// Stream is one of the streams of a Carrier. It is a net.Conn.
type Stream struct {
	c  *Carrier
	id uint32

	// Guarded by Carrier.mu.
	in      []byte            // has come; of this the bytes from read on are not read
	read    int               // of in
	credit  int               // bytes that may be sent
	owed    int               // bytes that were read, and for which the other side has no credit yet
	err     error             // io.EOF after the end by the other side, or why the connection has failed
	ended   bool              // by the other side
	closed  bool              // by this side
	wake    func()            // of Await
	ping    func() bool       // of OnPing
	pinged  func(enough bool) // of Ping, while there is no answer
	changed sync.Cond         // there is something in one of the above, or a deadline has passed

	// The first data that was sent after all that has come: when, since the connection began, and how many frames had come. 0: there is none.
	asked time.Duration
	heard uint64

	readBy, writeBy deadline
}

// deadline is until when a Read or a Write waits.
type deadline struct {
	timer  *time.Timer
	passed bool
}

// setLocked sets a deadline. after is called when it passes, with the lock.
func (d *deadline) setLocked(c *Carrier, t time.Time, after func()) {
	if d.timer != nil {
		d.timer.Stop()
	}
	d.timer, d.passed = nil, false
	if t.IsZero() {
		return
	}
	within := time.Until(t)
	if within <= 0 {
		d.passed = true
		after()
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(within, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if d.timer == timer {
			d.passed = true
			after()
		}
	})
	d.timer = timer
}

// Read reads what has come.
func (s *Stream) Read(b []byte) (int, error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for s.closed || s.unreadLocked() == 0 {
		switch {
		case s.closed:
			return 0, net.ErrClosed
		case s.err != nil:
			return 0, s.err
		case s.readBy.passed:
			return 0, os.ErrDeadlineExceeded
		}
		s.changed.Wait()
	}
	n := copy(b, s.in[s.read:])
	s.read += n
	switch {
	case s.unreadLocked() > 0:
	case cap(s.in) > idleBuffer:
		s.in, s.read = nil, 0
	default:
		s.in, s.read = s.in[:0], 0
	}
	s.owed += n
	gives := s.owed >= Window/2 && s.err == nil
	gives = gives && !noCredit.Planted()
	if gives {
		var credit [4]byte
		binary.BigEndian.PutUint32(credit[:], uint32(s.owed))
		c.frameLocked(kindCredit, s.id, string(credit[:]))
		s.owed = 0
	}
	return n, nil
}

func (s *Stream) unreadLocked() int { return len(s.in) - s.read }

// takeLocked takes data of the other side.
func (s *Stream) takeLocked(b []byte) (wake func(), err error) {
	if s.unreadLocked()+s.owed+len(b) > Window {
		return func() {}, errors.New("more of a stream than there was credit for")
	}
	moves := s.read >= Window
	moves = moves && !neverMoved.Planted()
	if moves {
		s.in, s.read = s.in[:copy(s.in, s.in[s.read:])], 0
	}
	s.in, s.asked = append(s.in, b...), 0
	if notWoken.Planted() {
		s.wake = nil
	}
	return s.wokenLocked(), nil
}

// creditLocked takes credit of the other side.
func (s *Stream) creditLocked(n int) error {
	if n <= 0 || n > Window-s.credit {
		return errors.New("more credit than was used")
	}
	s.credit += n
	s.changed.Broadcast()
	return nil
}

// endLocked ends a stream: by the other side, or as its connection has failed.
func (s *Stream) endLocked(err error) (wake func()) {
	if s.err == nil {
		s.err = err
	}
	if endOvertakes.Planted() {
		s.in, s.read = nil, 0
	}
	return s.wokenLocked()
}

// wokenLocked wakes what waits, and returns what is to be called without the lock.
func (s *Stream) wokenLocked() func() {
	s.changed.Broadcast()
	wake := s.wake
	s.wake = nil
	if wake == nil {
		return func() {}
	}
	return wake
}

// Await has wake called, once, when there is something to read, or the stream is closed. It reports false if it is so already, and then does
// nothing. wake is called without locks.
func (s *Stream) Await(wake func()) bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.unreadLocked() > 0 || s.err != nil || s.closed {
		return false
	}
	s.wake = wake
	return true
}

// Write sends bytes. It waits while the other side does not read.
func (s *Stream) Write(b []byte) (n int, err error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		m, err := s.sendLocked(b[n:])
		if n += m; err != nil || n == len(b) {
			return n, err
		}
		if s.writeBy.passed {
			return n, os.ErrDeadlineExceeded
		}
		if s.credit == 0 {
			s.changed.Wait()
		} else {
			c.room.Wait()
		}
	}
}

// WriteNow sends what can be sent without waiting, and returns how much that is.
func (s *Stream) WriteNow(b []byte) (int, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.sendLocked(b)
}

// sendLocked sends as much as can be sent.
func (s *Stream) sendLocked(b []byte) (int, error) {
	c := s.c
	switch {
	case s.closed:
		return 0, net.ErrClosed
	case s.err == io.EOF:
		return 0, io.ErrClosedPipe
	case s.err != nil:
		return 0, s.err
	}
	n := min(len(b), s.credit)
	if beyondCredit.Planted() {
		n = min(len(b), Window)
	}
	if n == 0 || len(c.out) >= maxOut {
		return 0, nil
	}
	s.asksLocked()
	h := header{kind: kindData, stream: s.id, length: n}
	c.out = append(h.append(c.out), b[:n]...)
	s.credit -= n
	c.wakeWriter()
	return n, nil
}

// asksLocked is called when the other side has something to answer.
func (s *Stream) asksLocked() {
	if c := s.c; s.asked == 0 && c.accept == nil {
		s.asked, s.heard = max(1, time.Since(c.began)), c.came
	}
}

// Close ends the stream. What was written before is sent.
func (s *Stream) Close() error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.wake != nil {
		go s.wake() // callers may hold locks
	}
	s.closed, s.in, s.read, s.wake, s.ping, s.pinged = true, nil, 0, nil, nil, nil
	for _, d := range []*deadline{&s.readBy, &s.writeBy} {
		d.setLocked(c, time.Time{}, nil)
	}
	s.changed.Broadcast()
	c.room.Broadcast()
	if c.err == nil {
		if s.unansweredLocked() {
			c.quitLocked()
		}
		c.closedLocked(s)
	}
	return nil
}

// unansweredLocked reports whether the connection seems to be lost, although nobody says so: since the stream has asked for something, nothing has
// come of any stream.
func (s *Stream) unansweredLocked() bool {
	c := s.c
	silent := s.asked != 0 && s.heard == c.came && time.Since(c.began)-s.asked >= answerAfter
	return silent && !silentKept.Planted()
}

// LocalAddr returns the address of the connection.
func (s *Stream) LocalAddr() net.Addr { return s.c.nc.LocalAddr() }

// RemoteAddr returns the address of the connection.
func (s *Stream) RemoteAddr() net.Addr { return s.c.nc.RemoteAddr() }

// SetDeadline sets both deadlines.
func (s *Stream) SetDeadline(t time.Time) error {
	s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// SetReadDeadline is as for a net.Conn.
func (s *Stream) SetReadDeadline(t time.Time) error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !s.closed {
		s.readBy.setLocked(s.c, t, s.changed.Broadcast)
	}
	return nil
}

// SetWriteDeadline is as for a net.Conn.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !s.closed {
		s.writeBy.setLocked(s.c, t, func() {
			s.changed.Broadcast()
			s.c.room.Broadcast()
		})
	}
	return nil
}
