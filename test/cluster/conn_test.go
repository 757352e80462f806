package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// errExpired is the server's word that a session is gone for good.
var errExpired = errors.New("session expired")

// maxReply is the longest reply that a client believes.
const maxReply = 64 << 20

// silence is how long a client waits for a reply before it gives up the
// connection.
const silence = 1500 * time.Millisecond

// conn is a connection with a session. One goroutine has it.
type conn struct {
	nc       net.Conn
	in       *bufio.Reader
	out      []byte // requests not written yet
	xid      int32
	wait     time.Duration // for any reply
	session  jute.SessionID
	password []byte
	timeout  time.Duration // negotiated
}

// dial connects and begins or resumes the session that r names. It returns
// errExpired if the server says that the session is gone.
func dial(addr string, r jute.ConnectRequest, wait time.Duration) (*conn, error) {
	nc, err := net.DialTimeout("tcp", addr, wait)
	if err != nil {
		return nil, err
	}
	c := &conn{nc: nc, in: bufio.NewReaderSize(nc, 16<<10), wait: wait}
	if err := c.handshake(&r); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

func (c *conn) handshake(r *jute.ConnectRequest) error {
	if r.Password == nil {
		r.Password = make([]byte, jute.PasswordLen)
	}
	r.HasReadOnly = true
	b, mark := jute.BeginFrame(nil)
	c.out = jute.EndFrame(r.Append(b), mark)
	if err := c.flush(); err != nil {
		return err
	}
	frame, err := c.frame()
	if err != nil {
		return fmt.Errorf("read connect response: %w", err)
	}
	var resp jute.ConnectResponse
	d := jute.NewDecoder(frame)
	resp.Decode(&d)
	switch {
	case d.Err() != nil:
		return fmt.Errorf("connect response: %w", d.Err())
	case resp.SessionID == 0 || resp.TimeoutMs <= 0:
		return errExpired
	}
	c.session, c.password = resp.SessionID, resp.Password
	c.timeout = time.Duration(resp.TimeoutMs) * time.Millisecond
	return nil
}

func (c *conn) close() { c.nc.Close() }

// put adds a request to those that flush sends.
func (c *conn) put(xid int32, code jute.OpCode, body record) {
	b, mark := jute.BeginFrame(c.out)
	h := jute.RequestHeader{Xid: xid, Type: code}
	b = h.Append(b)
	if body != nil {
		b = body.Append(b)
	}
	c.out = jute.EndFrame(b, mark)
}

func (c *conn) nextXid() int32 {
	c.xid++
	return c.xid
}

func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.wait)); err != nil {
		return err
	}
	_, err := c.nc.Write(c.out)
	c.out = c.out[:0]
	return err
}

// frame reads one frame.
func (c *conn) frame() ([]byte, error) {
	if err := c.nc.SetReadDeadline(time.Now().Add(c.wait)); err != nil {
		return nil, err
	}
	return jute.ReadFrame(c.in, maxReply)
}

// next reads the next frame: its header and the rest.
func (c *conn) next() (jute.ReplyHeader, []byte, error) {
	b, err := c.frame()
	if err != nil {
		return jute.ReplyHeader{}, nil, err
	}
	var h jute.ReplyHeader
	d := jute.NewAliasDecoder(b)
	h.Decode(&d)
	return h, d.Rest(), d.Err()
}

// answered reports whether more frames have been received already.
func (c *conn) answered() bool { return c.in.Buffered() > 0 }

// do sends an op and waits for its reply, for connections that have nothing else
// under way. The error is that of the connection, or the reply's code.
func (c *conn) do(o *op) error {
	xid := c.nextXid()
	c.put(xid, o.code, o.request())
	if err := c.flush(); err != nil {
		return err
	}
	for {
		h, body, err := c.next()
		if err != nil {
			return err
		}
		if h.Xid != xid {
			continue // an event
		}
		if err := o.answer(h, body); err != nil {
			return err
		}
		if o.err != 0 {
			return o.err
		}
		return nil
	}
}
