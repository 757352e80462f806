package mux

import (
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/zkd-project/zkd/internal/mux/streams"
)

// Stream is one of the streams of a Carrier. It is a net.Conn.
type Stream struct {
	c *Carrier

	// Guarded by Carrier.mu.
	rules    streams.Stream
	wake     func()            // of Await
	ping     func() bool       // of OnPing
	answered func(enough bool) // of Ping
	changed  sync.Cond         // there is something in one of the above, or a deadline has passed

	readBy, writeBy deadline
}

// newStream returns a stream that is not open yet.
func (c *Carrier) newStream() *Stream {
	s := &Stream{c: c}
	s.rules.User, s.changed.L = s, &c.mu
	return s
}

// of returns the stream with these rules.
func of(rules *streams.Stream) *Stream { return rules.User.(*Stream) }

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
	defer c.unlock()
	for {
		switch {
		case s.rules.Closed():
			return 0, net.ErrClosed
		case s.rules.Unread() > 0:
			return s.rules.Read(b), nil
		case s.rules.Err() != nil:
			return 0, s.rules.Err()
		case s.readBy.passed:
			return 0, os.ErrDeadlineExceeded
		}
		s.changed.Wait()
	}
}

// wokenLocked wakes what waits, and returns what is to be called without the lock.
func (s *Stream) wokenLocked() func() {
	s.changed.Broadcast()
	wake := s.wake
	s.wake = nil
	if notWoken.Planted() {
		wake = nil
	}
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
	if s.rules.Unread() > 0 || s.rules.Err() != nil || s.rules.Closed() {
		return false
	}
	s.wake = wake
	return true
}

// Write sends bytes. It waits while the other side does not read.
func (s *Stream) Write(b []byte) (n int, err error) {
	c := s.c
	c.mu.Lock()
	defer c.unlock()
	for {
		m, err := s.sendLocked(b[n:])
		if n += m; err != nil || n == len(b) {
			return n, err
		}
		if s.writeBy.passed {
			return n, os.ErrDeadlineExceeded
		}
		c.workLocked()
		if s.rules.Credit() == 0 {
			s.changed.Wait()
		} else {
			c.room.Wait()
		}
	}
}

// WriteNow sends what can be sent without waiting, and returns how much that is.
func (s *Stream) WriteNow(b []byte) (int, error) {
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.sendLocked(b)
}

// sendLocked sends as much as can be sent.
func (s *Stream) sendLocked(b []byte) (int, error) {
	switch err := s.rules.Err(); {
	case s.rules.Closed():
		return 0, net.ErrClosed
	case err == io.EOF:
		return 0, io.ErrClosedPipe
	case err != nil:
		return 0, err
	}
	return s.rules.Send(b), nil
}

// Close ends the stream. What was written before is sent.
func (s *Stream) Close() error {
	c := s.c
	c.mu.Lock()
	defer c.unlock()
	if s.rules.Closed() {
		return nil
	}
	if s.wake != nil {
		go s.wake() // callers may hold locks
	}
	s.wake, s.ping, s.answered = nil, nil, nil
	for _, d := range []*deadline{&s.readBy, &s.writeBy} {
		d.setLocked(c, time.Time{}, nil)
	}
	s.changed.Broadcast()
	c.room.Broadcast()
	s.rules.Close()
	return nil
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
	if !s.rules.Closed() {
		s.readBy.setLocked(s.c, t, s.changed.Broadcast)
	}
	return nil
}

// SetWriteDeadline is as for a net.Conn.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !s.rules.Closed() {
		s.writeBy.setLocked(s.c, t, func() {
			s.changed.Broadcast()
			s.c.room.Broadcast()
		})
	}
	return nil
}
