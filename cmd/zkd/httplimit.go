package main

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// writeTimeout is the time in which the reader of a page has to take what is written at once.
const writeTimeout = 30 * time.Second

// boundedListener limits the connections of an HTTP server, which take descriptors that the
// log and the links to other servers need: one too many is closed at once. A connection whose
// reader does not read ends.
type boundedListener struct {
	net.Listener
	most int64
	open atomic.Int64
}

// Accept returns the next connection for which there is room.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &boundedConn{Conn: nc, from: l}, nil
		}
		l.open.Add(-1)
		nc.Close()
	}
}

type boundedConn struct {
	net.Conn
	from *boundedListener
	once sync.Once
}

// Write writes p, or fails if it is not taken in time.
func (c *boundedConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Close closes the connection, and makes room for another.
func (c *boundedConn) Close() error {
	c.once.Do(func() { c.from.open.Add(-1) })
	return c.Conn.Close()
}
