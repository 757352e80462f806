package cluster

import (
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

// silence is how long a client waits for a reply before it gives up the
// connection.
const silence = 1500 * time.Millisecond

// conn is a connection that sends ops.
type conn struct{ *process.Conn }

// dial connects and begins or resumes the session that r names.
func dial(addr string, r jute.ConnectRequest, wait time.Duration) (*conn, error) {
	c, err := process.Dial(addr, r, wait)
	if err != nil {
		return nil, err
	}
	return &conn{c}, nil
}

// do sends an op and waits for its reply, for connections that have nothing else
// under way. The error is that of the connection, or the reply's code.
func (c *conn) do(o *op) error {
	xid := c.Put(o.code, o.request())
	if err := c.Flush(); err != nil {
		return err
	}
	for {
		h, body, err := c.Next()
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
