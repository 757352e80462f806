package crash

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/test/internal/process"
)

var openACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}

// client is a connection that sends one request after the other.
type client struct {
	*process.Conn
	events   int       // watch events received
	lastZxid jute.Zxid // largest that a reply had
}

// dial connects and begins or resumes the session that r names.
func dial(addr string, r jute.ConnectRequest) (*client, error) {
	c, err := process.Dial(addr, r, patience)
	if err != nil {
		return nil, err
	}
	return &client{Conn: c}, nil
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
		h, body, err := c.Next()
		if err != nil {
			return reply{}, err
		}
		if h.Xid == jute.XidNotification {
			c.events++
			continue
		}
		c.lastZxid = max(c.lastZxid, h.Zxid)
		return reply{h, body}, nil
	}
}

// call sends a request and returns its reply. The error is that of the
// connection; the reply's code is in the reply.
func (c *client) call(op jute.OpCode, body process.Record) (reply, error) {
	xid := c.Put(op, body)
	if err := c.Flush(); err != nil {
		return reply{}, err
	}
	r, err := c.next()
	if err == nil && r.Xid != xid {
		err = fmt.Errorf("reply has xid %d, want %d", r.Xid, xid)
	}
	return r, err
}

// do is call for requests that must succeed; a code is an error too.
func (c *client) do(op jute.OpCode, body process.Record) ([]byte, error) {
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
	c.PutXid(jute.XidPing, jute.OpPing, nil)
	if err := c.Flush(); err != nil {
		return err
	}
	_, err := c.next()
	return err
}
