// Package tlsconn has connections with TLS that take as few system calls as plain ones.
//
// A tls.Conn has one system call for each record that it writes, and a Read returns the contents
// of at most one record. That is expensive for a protocol with many small requests under way: if a
// client puts each of them in a separate record, each answer takes a system call, and 64 KiB of
// answers take four. Here a Write of several records is one system call, and
// a Read returns all complete records that have been received.
package tlsconn

import (
	"crypto/tls"
	"net"
	"sync"
)

// Conn is a connection with TLS. One goroutine at a time may call Read, and one Write.
type Conn struct {
	*tls.Conn
	below *below
}

// Server returns the server's end of a connection with TLS over nc.
func Server(nc net.Conn, config *tls.Config) *Conn {
	b := &below{Conn: nc}
	return &Conn{tls.Server(b, config), b}
}

// Under returns the connection that was given to Server, for one that crypto/tls knows.
func Under(nc net.Conn) net.Conn { return nc.(*below).Conn }

// Read reads at least one byte, and then what has been received already.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil || n == len(p) {
		return n, err
	}
	c.below.received = true
	defer func() { c.below.received = false }()
	for n < len(p) {
		more, err := c.Conn.Read(p[n:])
		n += more
		if err != nil {
			break // the next Read meets it again, unless it is errNotReceived
		}
	}
	return n, nil
}

// Write writes p in as few records as possible.
func (c *Conn) Write(p []byte) (int, error) {
	if len(p) <= maxRecord {
		return c.Conn.Write(p)
	}
	if err := c.Handshake(); err != nil { // its messages must not wait
		return 0, err
	}
	c.below.gather()
	n, err := c.Conn.Write(p)
	if errWrite := c.below.flush(); err == nil && errWrite != nil {
		return 0, errWrite
	}
	return n, err
}

const (
	maxRecord  = 16 << 10              // of the contents
	gatherSize = 4 * (maxRecord + 256) // with what the encryption adds
)

// below is the connection below that of TLS.
type below struct {
	net.Conn

	received bool // a Read wants no more than has been received; owned by its caller

	mu        sync.Mutex // the reader may send alerts
	gathering bool
	gathered  *[]byte // nil, or records that are not written yet
}

// errNotReceived reports that a record is not complete. It is a net.Error that is
// temporary, after which a tls.Conn can be read again.
type errNotReceived struct{}

func (errNotReceived) Error() string   { return "not received yet" }
func (errNotReceived) Timeout() bool   { return true }
func (errNotReceived) Temporary() bool { return true }

func (b *below) Read(p []byte) (int, error) {
	if b.received {
		return 0, errNotReceived{}
	}
	return b.Conn.Read(p)
}

var gatherBuffers = sync.Pool{New: func() any { return new(make([]byte, 0, gatherSize)) }}

// gather makes writes wait for flush, or until a buffer is full.
func (b *below) gather() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gathering = true
	b.gathered = gatherBuffers.Get().(*[]byte)
}

// flush ends gather.
func (b *below) flush() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gathering = false
	err := b.flushLocked()
	gatherBuffers.Put(b.gathered)
	b.gathered = nil
	return err
}

func (b *below) flushLocked() error {
	if len(*b.gathered) == 0 {
		return nil
	}
	_, err := b.Conn.Write(*b.gathered)
	*b.gathered = (*b.gathered)[:0]
	return err
}

func (b *below) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.gathering {
		return b.Conn.Write(p)
	}
	if len(*b.gathered)+len(p) > gatherSize {
		if err := b.flushLocked(); err != nil {
			return 0, err
		}
	}
	*b.gathered = append(*b.gathered, p...)
	return len(p), nil
}
