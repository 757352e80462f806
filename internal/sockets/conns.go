package sockets

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// Conns makes connections that need no goroutine while nothing comes. Its methods may be called from any goroutine.
type Conns struct {
	failed func(error)
	once   sync.Once
	set    *Set      // nil if there is none
	direct sync.Pool // of *Direct

	mu    sync.Mutex // of all that Conns have: held for no call that waits
	last  uint64
	waits map[uint64]*Conn // whose wake is to be called
}

// NewConns returns Conns. failed is called if a system that has Sets refuses one: connections stay as they are then.
func NewConns(failed func(error)) *Conns {
	c := &Conns{failed: failed, waits: map[uint64]*Conn{}}
	c.direct.New = func() any { return NewDirect() }
	return c
}

// exists reports whether there is a Set. It is made for the first socket.
func (c *Conns) exists() bool {
	c.once.Do(func() {
		set, err := NewSet(c.readable)
		switch {
		case err == nil:
			c.set = set
		case !errors.Is(err, errors.ErrUnsupported):
			c.failed(err)
		}
	})
	return c.set != nil
}

// Close ends the calls of wake by sockets that are readable, and waits until none is under way. There are no calls of Of any more.
func (c *Conns) Close() {
	if c.set != nil {
		c.set.Close()
	}
}

// Of returns a *Conn, or nc itself if that is none of the system's sockets, or there is no Set.
func (c *Conns) Of(nc net.Conn) net.Conn {
	socket, ok := nc.(syscall.Conn)
	if !ok || !c.exists() {
		return nc
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nc
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	return &Conn{Conn: nc, of: c, raw: raw, id: c.last}
}

func (c *Conns) readable(id uint64) {
	c.mu.Lock()
	var wake func()
	if one := c.waits[id]; one != nil {
		wake = one.wokenLocked()
	}
	c.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// Conn is one of the connections. It is a net.Conn and a syscall.Conn.
type Conn struct {
	net.Conn
	of  *Conns
	raw syscall.RawConn
	id  uint64

	// Guarded by Conns.mu.
	wake   func()
	known  bool // by the set
	limits bool // there is a deadline for reads
}

// SyscallConn returns the socket.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// Await has wake called, once, when Read would not wait any more: there is something to read, the connection has failed or is closed, or a deadline was
// set. It reports false if there is a deadline already, or the system refuses, and then does nothing. wake is called without locks, and must not block.
func (c *Conn) Await(wake func()) bool {
	p := c.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.limits || p.set.Await(c.raw, c.id, c.known) != nil {
		return false
	}
	c.known, c.wake = true, wake
	p.waits[c.id] = c
	return true
}

// wokenLocked returns what is to be called without the lock, or nil.
func (c *Conn) wokenLocked() func() {
	wake := c.wake
	if wake != nil {
		c.wake = nil
		delete(c.of.waits, c.id)
	}
	return wake
}

// TryWrite writes what the network takes at once, and returns how much that is.
func (c *Conn) TryWrite(b []byte) (int, error) {
	d := c.of.direct.Get().(*Direct)
	defer c.of.direct.Put(d)
	return d.Write(c, b)
}

// Close closes the connection.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.interrupt(true)
	return err
}

// SetReadDeadline sets the deadline of reads.
func (c *Conn) SetReadDeadline(t time.Time) error {
	err := c.Conn.SetReadDeadline(t)
	c.interrupt(!t.IsZero())
	return err
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	err := c.Conn.SetDeadline(t)
	c.interrupt(!t.IsZero())
	return err
}

// interrupt ends the wait of Await if there is a deadline for reads now, or the connection is closed.
func (c *Conn) interrupt(limits bool) {
	c.of.mu.Lock()
	c.limits = limits
	var wake func()
	if limits {
		wake = c.wokenLocked()
	}
	c.of.mu.Unlock()
	if wake != nil {
		wake()
	}
}
