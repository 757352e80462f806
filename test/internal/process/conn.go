package process

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// ErrExpired is the server's word that a session is gone for good.
var ErrExpired = errors.New("session expired")

// maxReply is the longest reply that a client believes.
const maxReply = 256 << 20

// Conn is a connection with a session. One goroutine has it.
type Conn struct {
	Net      net.Conn
	Session  jute.SessionID
	Password []byte
	Timeout  time.Duration // negotiated

	in   *bufio.Reader
	out  []byte // requests not written yet
	xid  int32
	wait time.Duration // for any reply
}

// Dial connects and begins or resumes the session that r names. It returns
// ErrExpired if the server says that the session is gone. wait bounds each wait
// for the server.
func Dial(addr string, r jute.ConnectRequest, wait time.Duration) (*Conn, error) {
	nc, err := net.DialTimeout("tcp", addr, wait)
	if err != nil {
		return nil, err
	}
	return Begin(nc, r, wait)
}

// Begin is Dial over a connection that there is already. It closes it if it fails.
func Begin(nc net.Conn, r jute.ConnectRequest, wait time.Duration) (*Conn, error) {
	c := &Conn{Net: nc, in: bufio.NewReaderSize(nc, 16<<10), wait: wait}
	if err := c.handshake(&r); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

func (c *Conn) handshake(r *jute.ConnectRequest) error {
	if r.Password == nil {
		r.Password = make([]byte, jute.PasswordLen)
	}
	r.HasReadOnly = true
	b, mark := jute.BeginFrame(nil)
	if err := c.Write(jute.EndFrame(r.Append(b), mark)); err != nil {
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
		return ErrExpired
	}
	c.Session, c.Password = resp.SessionID, resp.Password
	c.Timeout = time.Duration(resp.TimeoutMs) * time.Millisecond
	return nil
}

// Close closes the connection and leaves the session.
func (c *Conn) Close() { c.Net.Close() }

// Record is a request body.
type Record interface{ Append(b []byte) []byte }

// Put adds a request to those that Flush sends, and returns its xid.
func (c *Conn) Put(code jute.OpCode, body Record) (xid int32) {
	c.xid++
	c.PutXid(c.xid, code, body)
	return c.xid
}

// PutXid is Put with an xid of the caller's.
func (c *Conn) PutXid(xid int32, code jute.OpCode, body Record) {
	b, mark := jute.BeginFrame(c.out)
	h := jute.RequestHeader{Xid: xid, Type: code}
	b = h.Append(b)
	if body != nil {
		b = body.Append(b)
	}
	c.out = jute.EndFrame(b, mark)
}

// PutFrame adds bytes as they are.
func (c *Conn) PutFrame(frame []byte) { c.out = append(c.out, frame...) }

// Unsent reports whether there are requests for Flush.
func (c *Conn) Unsent() bool { return len(c.out) > 0 }

// Flush sends the requests that were put.
func (c *Conn) Flush() error {
	b := c.out
	c.out = c.out[:0]
	return c.Write(b)
}

// Write sends bytes as they are.
func (c *Conn) Write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := c.Net.SetWriteDeadline(time.Now().Add(c.wait)); err != nil {
		return err
	}
	_, err := c.Net.Write(b)
	return err
}

func (c *Conn) frame() ([]byte, error) {
	if err := c.Net.SetReadDeadline(time.Now().Add(c.wait)); err != nil {
		return nil, err
	}
	return jute.ReadFrame(c.in, maxReply)
}

// Next reads the next frame: its header and the rest.
func (c *Conn) Next() (jute.ReplyHeader, []byte, error) {
	b, err := c.frame()
	if err != nil {
		return jute.ReplyHeader{}, nil, err
	}
	var h jute.ReplyHeader
	d := jute.NewAliasDecoder(b)
	h.Decode(&d)
	if d.Err() != nil {
		return h, nil, fmt.Errorf("reply header: %w", d.Err())
	}
	return h, d.Rest(), nil
}

// Answered reports whether more frames have been received already.
func (c *Conn) Answered() bool { return c.in.Buffered() > 0 }

// Node is what a server has at a path.
type Node struct {
	Data  string
	Stat  jute.Stat
	Reply jute.Zxid // of the read
}

// Walk reads the whole tree, for connections that have nothing else under way
// and no watches.
func (c *Conn) Walk() (map[string]Node, error) {
	nodes := make(map[string]Node)
	for level := []string{"/"}; len(level) > 0; {
		var children []string
		for piece := range slices.Chunk(level, 100) {
			names, err := c.readNodes(piece, nodes)
			if err != nil {
				return nil, err
			}
			children = append(children, names...)
		}
		level = children
	}
	return nodes, nil
}

// readNodes reads the nodes of paths at once, and returns the paths of their children.
func (c *Conn) readNodes(paths []string, nodes map[string]Node) (children []string, err error) {
	for _, p := range paths {
		c.Put(jute.OpGetData, &jute.PathWatchRequest{Path: p})
		c.Put(jute.OpGetChildren2, &jute.PathWatchRequest{Path: p})
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	for _, p := range paths {
		names, err := c.readNode(p, nodes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		children = append(children, names...)
	}
	return children, nil
}

// readNode takes the replies for one node, which may have gone meanwhile.
func (c *Conn) readNode(p string, nodes map[string]Node) (children []string, err error) {
	var data jute.GetDataResponse
	var list jute.GetChildren2Response
	zxid, here, err := c.decode(&data)
	if err != nil {
		return nil, err
	}
	if _, still, err := c.decode(&list); err != nil || !here || !still {
		return nil, err
	}
	if int(list.Stat.NumChildren) != len(list.Children) {
		return nil, fmt.Errorf("numChildren is %d, and there are %d", list.Stat.NumChildren, len(list.Children))
	}
	nodes[p] = Node{string(data.Data), data.Stat, zxid}
	for _, name := range list.Children {
		children = append(children, path.Join(p, name))
	}
	return children, nil
}

// decode takes the reply of a read, and reports whether there was a node.
func (c *Conn) decode(into interface{ Decode(d *jute.Decoder) }) (zxid jute.Zxid, there bool, err error) {
	h, body, err := c.Next()
	switch {
	case err != nil:
		return 0, false, err
	case h.Err == jute.ErrNoNode:
		return h.Zxid, false, nil
	case h.Err != 0:
		return 0, false, h.Err
	}
	d := jute.NewDecoder(body)
	into.Decode(&d)
	return h.Zxid, true, d.Err()
}
