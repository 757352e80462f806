// Package fake is a server of ZooKeeper's client protocol for tests of the load
// generator: small, in memory, without ACLs, expiry or sequences. Tests break
// its replies on purpose.
package fake

import (
	"bufio"
	"encoding/binary"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// Server is a running server.
type Server struct {
	// Spoil may change the reply to a request, or return nil to close the
	// connection instead. frame is the payload, header included. It is called
	// for one request at a time, and set before the first connection.
	Spoil func(op jute.OpCode, frame []byte) []byte
	// Event may change a watch event, or return nil to drop it.
	Event func(frame []byte) []byte

	Addr string

	listener net.Listener
	wg       sync.WaitGroup
	mu       struct {
		sync.Mutex
		nodes   map[string]*node
		conns   map[*conn]bool
		session int64
		zxid    int64
	}
}

type node struct {
	data     []byte
	version  int32
	owner    int64
	watchers []*conn
}

type conn struct {
	net.Conn
	out     *bufio.Writer
	session int64
}

// Start starts a server on a free port of the loopback interface, and stops it
// at the end of the test.
func Start(t testing.TB) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: l.Addr().String(), listener: l}
	s.mu.nodes = map[string]*node{"/": {}}
	s.mu.conns = map[*conn]bool{}
	s.wg.Go(s.accept)
	t.Cleanup(s.stop)
	return s
}

// Paths returns the paths of all nodes, sorted.
func (s *Server) Paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.mu.nodes))
}

func (s *Server) stop() {
	s.listener.Close()
	s.mu.Lock()
	for c := range s.mu.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Server) accept() {
	for {
		nc, err := s.listener.Accept()
		if err != nil {
			return
		}
		c := &conn{Conn: nc, out: bufio.NewWriter(nc)}
		s.mu.Lock()
		s.mu.conns[c] = true
		s.mu.session++
		c.session = s.mu.session
		s.mu.Unlock()
		s.wg.Go(func() {
			s.serve(c)
			c.Close()
			s.mu.Lock()
			delete(s.mu.conns, c)
			s.mu.Unlock()
		})
	}
}

// maxFrame is more than any request of a test has.
const maxFrame = 64 << 20

// serve answers the requests of a connection until it ends.
func (s *Server) serve(c *conn) {
	in := bufio.NewReader(c)
	connect, err := jute.ReadFrame(in, maxFrame)
	if err != nil || len(connect) < 24 {
		return
	}
	reply := jute.AppendInt32(nil, int32(0))
	reply = append(reply, connect[12:16]...) // the wished timeout
	reply = jute.AppendInt64(reply, c.session)
	reply = jute.AppendBuffer(reply, make([]byte, 16))
	reply = append(reply, 0)
	if c.write(reply); c.out.Flush() != nil {
		return
	}
	for {
		frame, err := jute.ReadFrame(in, maxFrame)
		if err != nil || len(frame) < 8 {
			return
		}
		if !s.answer(c, frame) || in.Buffered() == 0 && c.flush(s) != nil {
			return
		}
	}
}

// write puts a frame into the out buffer. It fails when flush does.
func (c *conn) write(payload []byte) {
	_, _ = c.out.Write(jute.AppendBuffer(nil, payload))
}

func (c *conn) flush(s *Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.out.Flush()
}

// answer writes the reply to a request and reports whether to go on.
func (s *Server) answer(c *conn, frame []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	xid, op := frame[:4], jute.OpCode(binary.BigEndian.Uint32(frame[4:]))
	d := jute.NewDecoder(frame[8:])
	body, code := s.apply(c, op, &d)
	s.mu.zxid++
	reply := append([]byte{}, xid...)
	reply = jute.AppendInt64(reply, s.mu.zxid)
	reply = jute.AppendInt32(reply, code)
	reply = append(reply, body...)
	if s.Spoil != nil {
		if reply = s.Spoil(op, reply); reply == nil {
			return false
		}
	}
	c.write(reply)
	if op == jute.OpCloseSession {
		_ = c.out.Flush() // the connection ends anyway
		return false
	}
	return true
}

// apply carries out one operation.
func (s *Server) apply(c *conn, op jute.OpCode, d *jute.Decoder) ([]byte, jute.Code) {
	switch op {
	case jute.OpPing:
		return nil, 0
	case jute.OpCloseSession:
		maps.DeleteFunc(s.mu.nodes, func(_ string, n *node) bool { return n.owner == c.session })
		return nil, 0
	case jute.OpMulti:
		return s.multi(c, d)
	}
	path := d.String()
	n := s.mu.nodes[path]
	if n == nil && op != jute.OpCreate {
		return nil, jute.ErrNoNode
	}
	switch op {
	case jute.OpCreate:
		return s.create(c, path, d)
	case jute.OpDelete:
		if len(s.children(path)) > 0 {
			return nil, jute.ErrNotEmpty
		}
		delete(s.mu.nodes, path)
		return nil, 0
	case jute.OpSetData:
		n.data = d.Buffer()
		n.version++
		s.notify(path, n)
		return s.stat(path, n), 0
	case jute.OpExists:
		return s.stat(path, n), 0
	case jute.OpSync:
		return jute.AppendString(nil, path), 0
	case jute.OpGetData:
		if d.Bool() {
			n.watchers = append(n.watchers, c)
		}
		return append(jute.AppendBuffer(nil, n.data), s.stat(path, n)...), 0
	case jute.OpGetChildren:
		names := s.children(path)
		b := jute.AppendInt32(nil, int32(len(names)))
		for _, name := range names {
			b = jute.AppendString(b, name)
		}
		return b, 0
	}
	return nil, jute.ErrUnimplemented
}

func (s *Server) create(c *conn, path string, d *jute.Decoder) ([]byte, jute.Code) {
	n := &node{data: d.Buffer()}
	acls, _ := d.Count(12)
	for range acls {
		d.Int32()
		_, _ = d.String(), d.String()
	}
	mode := jute.CreateMode(d.Int32())
	if d.Err() != nil || len(d.Rest()) > 0 && mode != 0 && mode != jute.ModeEphemeral {
		return nil, jute.ErrMarshalling
	}
	if mode.Ephemeral() {
		n.owner = c.session
	}
	parent := path[:max(1, strings.LastIndexByte(path, '/'))]
	switch {
	case s.mu.nodes[path] != nil:
		return nil, jute.ErrNodeExists
	case s.mu.nodes[parent] == nil:
		return nil, jute.ErrNoNode
	}
	s.mu.nodes[path] = n
	return jute.AppendString(nil, path), 0
}

// multi carries out operations up to the first that fails. It takes back
// nothing.
func (s *Server) multi(c *conn, d *jute.Decoder) ([]byte, jute.Code) {
	var b []byte
	for {
		op, done, _ := jute.OpCode(d.Int32()), d.Bool(), d.Int32()
		if d.Err() != nil {
			return nil, jute.ErrMarshalling
		}
		if done {
			return append(b, 0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff), 0
		}
		result, code := s.apply(c, op, d)
		switch op {
		case jute.OpDelete, jute.OpSetData:
			d.Int32() // version
		}
		if code != 0 {
			op, result = jute.OpError, jute.AppendInt32(nil, code)
		}
		b = jute.AppendInt32(b, op)
		b = append(b, 0)
		b = append(jute.AppendInt32(b, code), result...)
	}
}

// notify sends and forgets the watches of a node.
func (s *Server) notify(path string, n *node) {
	event := jute.AppendInt32(nil, jute.XidNotification)
	event = jute.AppendInt64(event, int64(-1))
	event = jute.AppendInt32(event, int32(0))
	event = jute.AppendInt32(event, jute.EventDataChanged)
	event = jute.AppendInt32(event, jute.StateSyncConnected)
	event = jute.AppendString(event, path)
	for _, w := range n.watchers {
		e := slices.Clone(event)
		if s.Event != nil {
			e = s.Event(e)
		}
		if e != nil {
			w.write(e)
			_ = w.out.Flush() // its own reader meets the error
		}
	}
	n.watchers = nil
}

// children returns the names of the children of path.
func (s *Server) children(path string) []string {
	prefix := strings.TrimSuffix(path, "/") + "/"
	var names []string
	for p := range s.mu.nodes {
		if name, ok := strings.CutPrefix(p, prefix); ok && name != "" && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names
}

// stat returns the Stat of a node as it is on the wire; its zxids and times are
// zero.
func (s *Server) stat(path string, n *node) []byte {
	b := make([]byte, 68)
	binary.BigEndian.PutUint32(b[32:], uint32(n.version))
	binary.BigEndian.PutUint64(b[44:], uint64(n.owner))
	binary.BigEndian.PutUint32(b[52:], uint32(len(n.data)))
	binary.BigEndian.PutUint32(b[56:], uint32(len(s.children(path))))
	return b
}
