package main

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/zkd-project/zkd/internal/accept"
	"github.com/zkd-project/zkd/server/fair"
	"github.com/zkd-project/zkd/server/limits"
)

const (
	// writeTimeout is the time in which the reader of a page has to take a piece of it, of up to writePiece bytes.
	writeTimeout = 30 * time.Second
	writePiece   = 64 << 10
	// headerTimeout is the time in which the head of a request has to come.
	headerTimeout = 10 * time.Second
	// bodyTimeout is the time in which the body of a request has to come after its head. A large one, of the HTTP API, has
	// a second more for each bodyRate bytes that have come.
	bodyTimeout = 10 * time.Second
	bodyRate    = 8 << 10
)

// boundedListener limits the connections of an HTTP server, which take descriptors that the
// log and the links to other servers need. With one too many, one of the address that has most
// ends. If no address has more, the oldest one without a request does, and if there is none, the new one. A
// connection whose reader does not read ends.
type boundedListener struct {
	net.Listener
	most   int
	lacks  func(error) // hears that there is no descriptor for a connection, and with nil that there is
	places fair.Places[*boundedConn]
}

// Accept returns the next connection for which there is room.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		nc, err := accept.Next(l.Listener, nil, l.lacks)
		if err != nil {
			return nil, err
		}
		c := &boundedConn{Conn: nc, from: l}
		if c.place = l.places.Take(l.most, c, []string{network(nc.RemoteAddr())}, func() { nc.Close() }); c.place != nil {
			l.places.SetIdle(c.place, true)
			return c, nil
		}
		nc.Close()
	}
}

// network returns that by which connections of an address are counted.
func network(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return limits.Network(host)
}

type boundedConn struct {
	net.Conn
	from  *boundedListener
	place *fair.Place[*boundedConn]
	begun bool // something was read
}

// Read reads. The first byte of a ZooKeeper client is 0, as its frames have a length. It sends no line end and
// waits for an answer, so what it has sent is made a line, which HTTP refuses at once.
func (c *boundedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.begun {
		c.begun = true
		if p[0] == 0 {
			p[n-1] = '\n'
		}
	}
	return n, err
}

// Write writes p, or fails if a piece of it is not taken in time. A large entry of the log may be long under way.
func (c *boundedConn) Write(p []byte) (n int, err error) {
	for more := true; more && err == nil; more = n < len(p) {
		if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return n, err
		}
		var k int
		k, err = c.Conn.Write(p[n:min(n+writePiece, len(p))])
		n += k
	}
	return n, err
}

// Close closes the connection, and makes room for another.
func (c *boundedConn) Close() error {
	c.from.places.Leave(c.place)
	return c.Conn.Close()
}

// follow notes whether there is a request on a connection of an HTTP server.
func follow(nc net.Conn, state http.ConnState) {
	if c := boundedBelow(nc); c != nil {
		c.from.places.SetIdle(c.place, state == http.StateNew || state == http.StateIdle)
	}
}

// boundedBelow returns the connection of a boundedListener that is below nc, or nil.
func boundedBelow(nc net.Conn) *boundedConn {
	for {
		switch c := nc.(type) {
		case *boundedConn:
			return c
		case *begunConn:
			nc = c.Conn
		case *tls.Conn:
			nc = c.NetConn()
		default:
			return nil
		}
	}
}

// hurried is a handler to whose requests the body has to come in time, whether it is read or not. Other
// requests may last, as streams do.
func hurried(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			b := &hurriedBody{ReadCloser: r.Body, until: http.NewResponseController(w).SetReadDeadline, end: time.Now().Add(bodyTimeout)}
			b.came(0, nil)
			r.Body = b
		}
		h.ServeHTTP(w, r)
	})
}

// hurriedBody is the body of a request, which has to come in time.
type hurriedBody struct {
	io.ReadCloser
	until func(time.Time) error
	end   time.Time
}

func (b *hurriedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.came(n, err)
	return n, err
}

// came gives the rest of the body its time. When all has come, the request may last.
func (b *hurriedBody) came(n int, err error) {
	if b.end = b.end.Add(time.Duration(n) * time.Second / bodyRate); err == io.EOF {
		b.end = time.Time{}
	}
	_ = b.until(b.end) // without support for deadlines, there is no connection that could be held
}
