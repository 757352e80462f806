package zktest

import (
	"io"
	"net"
	"slices"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// conn is a client's connection together with the proxy's connection to the server. One
// goroutine forwards what the client sends, another what the server sends.
type conn struct {
	door   *door
	client net.Conn
	gone   chan struct{} // closed when both connections break

	// Guarded by hub.mu.
	server  net.Conn // nil before it is dialled
	broken  bool     // gone is closed
	greeted bool     // the connect request has been seen
	began   bool     // so has the response
	session jute.SessionID
	pending []asked // forwarded and not answered; the oldest first
	cut     *Cut    // the cut whose request came on this connection; or nil
}

// asked is a request without a reply.
type asked struct {
	xid    int32
	silent bool // the reply must not be forwarded
}

// serve runs the connection to its end.
func (c *conn) serve() {
	defer c.forget()
	if !c.gate() || !c.dial() {
		return
	}
	up := make(chan struct{})
	go func() {
		defer close(up)
		c.pump(c.client, c.server, c.requestLocked)
	}()
	c.pump(c.server, c.client, c.replyLocked)
	c.hangUp()
	<-up
}

// dial connects to the server. If it can't, it resets the client's connection and returns
// false.
func (c *conn) dial() bool {
	h := c.door.hub
	h.mu.Lock()
	target := c.door.target
	h.mu.Unlock()
	var dialer net.Dialer
	server, err := dialer.DialContext(h.ctx, "tcp", target)
	if err != nil {
		reset(c.client)
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c.server = server
	if c.broken {
		server.Close()
	}
	return !c.broken
}

// forget breaks the connection, if it is not broken yet, and removes it from the list.
func (c *conn) forget() {
	h := c.door.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	c.breakLocked()
	delete(c.door.conns, c)
	h.tellLocked()
}

// breakLocked closes both connections.
func (c *conn) breakLocked() {
	if c.broken {
		return
	}
	c.broken = true
	close(c.gone)
	c.client.Close()
	if c.server != nil {
		c.server.Close()
	}
}

// hangUp ends the connection to the server, tells the client that nothing more comes, and
// lets the client read what has been sent: a close with unread bytes of the client would make
// the system discard that.
func (c *conn) hangUp() {
	c.server.Close()
	if tcp, ok := c.client.(*net.TCPConn); ok {
		tcp.CloseWrite()
	}
	h := c.door.hub
	h.mu.Lock()
	cut := c.cut
	h.mu.Unlock()
	if cut != nil {
		close(cut.done)
	}
	c.client.SetReadDeadline(time.Now().Add(lingering))
	io.Copy(io.Discard, c.client)
	h.mu.Lock()
	c.breakLocked()
	h.mu.Unlock()
}

// lingering is how long a client may take to notice that its connection has ended.
const lingering = time.Second

// requestLocked decides about a frame of the client.
func (c *conn) requestLocked(frame []byte) verdict {
	r := request{op: jute.OpCreateSession, paths: []string{""}}
	if c.greeted {
		r = parseRequest(frame)
	}
	c.greeted = true
	c.cut = c.door.cutForLocked(r)
	if c.cut != nil && !c.cut.after {
		if len(c.pending) == 0 {
			c.server.Close() // ends the other pump
		}
		return drop
	}
	c.door.counts[r.op]++
	c.door.hub.noteLocked(r)
	c.pending = append(c.pending, asked{xid: r.xid, silent: c.cut != nil})
	if c.cut != nil {
		return last
	}
	return pass
}

// replyLocked decides about a frame of the server.
func (c *conn) replyLocked(frame []byte) verdict {
	h, ok := c.headerLocked(frame)
	if !ok {
		return pass
	}
	if h.Xid == jute.XidNotification {
		c.door.notifications++
		c.door.hub.heardLocked(frame)
		return pass
	}
	i := slices.IndexFunc(c.pending, func(a asked) bool { return a.xid == h.Xid })
	if i < 0 {
		return pass
	}
	silent := c.pending[i].silent
	c.pending = slices.Delete(c.pending, i, i+1)
	switch {
	case silent:
		c.cut.code = h.Err
		return drop
	case c.cut != nil && len(c.pending) == 0:
		return last
	}
	return pass
}

// headerLocked returns the header of a frame of the server. The first frame is the answer to
// the connect request, which has none.
func (c *conn) headerLocked(frame []byte) (jute.ReplyHeader, bool) {
	if c.began {
		return parseReply(frame)
	}
	c.began = true
	if r, ok := parseConnected(frame); ok && r.SessionID != 0 {
		c.session = r.SessionID
		c.door.hub.sessions[r.SessionID] = &session{password: slices.Clone(r.Password), last: c.door}
	}
	return jute.ReplyHeader{}, true
}

// gate waits while the door is stalled and, before the connect request has passed, while a
// session is being expired. It returns false if the connection breaks.
func (c *conn) gate() bool {
	for {
		c.door.hub.mu.Lock()
		wait, broken := c.door.stalled, c.broken
		if wait == nil && !c.greeted {
			wait = c.door.hub.expired
		}
		c.door.hub.mu.Unlock()
		if broken {
			return false
		}
		if wait == nil {
			return true
		}
		select {
		case <-wait:
		case <-c.gone:
		}
	}
}

// verdict determines what happens to a frame, and to those after it.
type verdict int

const (
	pass verdict = iota
	last         // pass it, and nothing after it
	drop         // drop it and everything after it
)

// pump forwards frames until either end closes or until judge, which is called with the hub's
// lock held, ends it.
func (c *conn) pump(from, to net.Conn, judge func(frame []byte) verdict) {
	var in splitter
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		in.feed(buf[:n])
		if !c.gate() {
			return
		}
		out, more := c.take(&in, judge)
		if len(out) > 0 {
			if _, err := to.Write(out); err != nil {
				return
			}
		}
		if !more {
			return
		}
		if err != nil {
			if tcp, ok := to.(*net.TCPConn); ok && err == io.EOF {
				tcp.CloseWrite() // the other direction may still have data
			}
			return
		}
	}
}

// take returns the bytes that can be forwarded, and whether more may follow.
func (c *conn) take(in *splitter, judge func(frame []byte) verdict) (out []byte, more bool) {
	h := c.door.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.tellLocked()
	for {
		frame := in.next()
		if frame == nil {
			return out, true
		}
		v := pass
		if !in.opaque {
			v = judge(frame)
		}
		if v != drop {
			out = append(out, frame...)
		}
		if v != pass {
			return out, false
		}
	}
}
