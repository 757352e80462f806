package crash

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

var openACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}

// maxReply is the longest reply that the client believes.
const maxReply = 256 << 20

// client is a connection with a session. One goroutine has it.
type client struct {
	nc       net.Conn
	in       *bufio.Reader
	out      []byte // requests not written yet
	xid      int32
	session  jute.SessionID
	password []byte
	timeout  time.Duration // negotiated
	events   int           // watch events received
	lastZxid jute.Zxid     // largest that a reply had
}

// dial connects and begins or resumes the session that r names. It returns
// errExpired if the server says that the session is gone.
func dial(addr string, r jute.ConnectRequest) (*client, error) {
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	c := &client{nc: nc, in: bufio.NewReaderSize(nc, 16<<10)}
	if err := c.handshake(&r); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

func (c *client) handshake(r *jute.ConnectRequest) error {
	if r.Password == nil {
		r.Password = make([]byte, jute.PasswordLen)
	}
	r.HasReadOnly = true
	b, mark := jute.BeginFrame(nil)
	if err := c.write(jute.EndFrame(r.Append(b), mark)); err != nil {
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

func (c *client) close() { c.nc.Close() }

// write sends bytes as they are.
func (c *client) write(b []byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := c.nc.Write(b)
	return err
}

// record is a request body.
type record interface{ Append(b []byte) []byte }

// put adds a request to those that flush sends, and returns its xid.
func (c *client) put(op jute.OpCode, body record) int32 {
	c.xid++
	c.putXid(c.xid, op, body)
	return c.xid
}

func (c *client) putXid(xid int32, op jute.OpCode, body record) {
	b, mark := jute.BeginFrame(c.out)
	h := jute.RequestHeader{Xid: xid, Type: op}
	b = h.Append(b)
	if body != nil {
		b = body.Append(b)
	}
	c.out = jute.EndFrame(b, mark)
}

func (c *client) flush() error {
	b := c.out
	c.out = c.out[:0]
	return c.write(b)
}

// frame reads one frame.
func (c *client) frame() ([]byte, error) {
	if err := c.nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	return jute.ReadFrame(c.in, maxReply)
}

// reply is an answer to a request.
type reply struct {
	jute.ReplyHeader
	body []byte
}

// err returns the reply's code as an error.
func (r *reply) err() error {
	if r.Err == 0 {
		return nil
	}
	return r.Err
}

// next reads the next reply. It counts watch events and skips them.
func (c *client) next() (reply, error) {
	for {
		frame, err := c.frame()
		if err != nil {
			return reply{}, err
		}
		var r reply
		d := jute.NewAliasDecoder(frame)
		r.ReplyHeader.Decode(&d)
		if d.Err() != nil {
			return reply{}, fmt.Errorf("reply header: %w", d.Err())
		}
		if r.Xid == jute.XidNotification {
			c.events++
			continue
		}
		r.body = d.Rest()
		c.lastZxid = max(c.lastZxid, r.Zxid)
		return r, nil
	}
}

// answered reports whether more replies have been received already.
func (c *client) answered() bool { return c.in.Buffered() > 0 }

// call sends a request and returns its reply. The error is that of the
// connection; the reply's code is in the reply.
func (c *client) call(op jute.OpCode, body record) (reply, error) {
	xid := c.put(op, body)
	if err := c.flush(); err != nil {
		return reply{}, err
	}
	r, err := c.next()
	if err == nil && r.Xid != xid {
		err = fmt.Errorf("reply has xid %d, want %d", r.Xid, xid)
	}
	return r, err
}

// do is call for requests that must succeed; a code is an error too.
func (c *client) do(op jute.OpCode, body record) ([]byte, error) {
	r, err := c.call(op, body)
	if err == nil {
		err = r.err()
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", op, err)
	}
	return r.body, nil
}

func (c *client) create(path string, data []byte, mode jute.CreateMode) (string, error) {
	body, err := c.do(jute.OpCreate, &jute.CreateRequest{Path: path, Data: data, ACL: openACL, Mode: mode})
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	d := jute.NewDecoder(body)
	return d.String(), d.Err()
}

func (c *client) set(path string, data []byte) error {
	_, err := c.do(jute.OpSetData, &jute.SetDataRequest{Path: path, Data: data, Version: -1})
	return err
}

func (c *client) get(path string) ([]byte, error) {
	body, err := c.do(jute.OpGetData, &jute.PathWatchRequest{Path: path})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var r jute.GetDataResponse
	d := jute.NewDecoder(body)
	r.Decode(&d)
	return r.Data, d.Err()
}

func (c *client) children(path string) ([]string, error) {
	body, err := c.do(jute.OpGetChildren, &jute.PathWatchRequest{Path: path})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d := jute.NewDecoder(body)
	return d.Strings(), d.Err()
}

// ping is answered by the tree as it stands: the reply's zxid is the last
// applied one.
func (c *client) ping() error {
	c.putXid(jute.XidPing, jute.OpPing, nil)
	if err := c.flush(); err != nil {
		return err
	}
	_, err := c.next()
	return err
}
