package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// conn is a connection that restarts its deadline with each read and write, and counts its
// bytes.
type conn struct {
	net.Conn
	raw         net.Conn      // the underlying connection, without TLS
	idle, stall time.Duration // deadlines of one read and of one write; 0 for none
	in, out     *atomic.Uint64
	reads       atomic.Uint64 // that returned data
}

var (
	errSilent = &reason{"silent", "nothing was heard of it for too long"}
	errStuck  = &reason{"stuck", "the network takes nothing of what is sent to it"}
)

// Read fails with errSilent if nothing arrives in time.
func (c *conn) Read(p []byte) (int, error) {
	if c.idle > 0 {
		if err := c.Conn.SetReadDeadline(time.Now().Add(c.idle)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.in.Add(uint64(n))
		c.reads.Add(1)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSilent
	}
	return n, err
}

// writePiece is the number of bytes that must be accepted within one deadline. A deadline
// for each piece tolerates a slow network.
const writePiece = 256 << 10

// Write fails with errStuck if a piece is not accepted in time.
func (c *conn) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		if c.stall > 0 {
			if err := c.Conn.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
				return n, err
			}
		}
		var k int
		k, err = c.Conn.Write(p[:min(len(p), writePiece)])
		n, p = n+k, p[k:]
		c.out.Add(uint64(k))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errStuck
	}
	return n, err
}

// Close skips the close message of TLS, which would wait for a network that may accept
// nothing.
func (c *conn) Close() error { return c.raw.Close() }

// encrypted reports whether a connection is TLS.
func encrypted(nc net.Conn) bool {
	_, ok := nc.(*tls.Conn)
	return ok
}

// sniffed is a connection whose first byte has been read already.
type sniffed struct {
	net.Conn
	first []byte
}

func (c *sniffed) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}
