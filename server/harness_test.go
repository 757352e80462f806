package server

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/config"
)

// testServer is a complete server whose clients connect in memory.
type testServer struct {
	*Server
	t      testing.TB
	opts   Options
	net    *memListener
	secure *memListener // of secureClientPort
	logged *observer.ObservedLogs
	slept  *atomic.Int64 // for how long its machine was suspended, in ns: see suspend
	set    *atomic.Int64 // by how much its wall clock was set, in ns: see setClock
}

// startServer starts a server with the given lines of configuration on a file
// system in memory, and closes it at the end of the test.
func startServer(t testing.TB, lines ...string) *testServer {
	t.Helper()
	return startOn(t, crashfs.New(1), "/data", lines...)
}

// startOn starts a server on a file system and a directory.
func startOn(t testing.TB, fs vfs.FS, dir string, lines ...string) *testServer {
	t.Helper()
	return startWith(t, Options{FS: fs, Config: parseConfig(t, dir, lines...)})
}

func parseConfig(t testing.TB, dir string, lines ...string) *config.Config {
	t.Helper()
	text := "dataDir=" + dir + "\nclientPort=2181\ntickTime=1000\n4lw.commands.whitelist=*\n" + strings.Join(lines, "\n")
	cfg, warnings, err := config.Parse(strings.NewReader(text), "zoo.cfg")
	if err != nil {
		t.Fatalf("configuration: %v", err)
	}
	for _, w := range warnings {
		t.Logf("configuration: %v", w)
	}
	if cfg.MaxClientCnxns == 60 {
		cfg.MaxClientCnxns = 0 // all clients of most tests have one address
	}
	if !strings.Contains(text, "\npreAllocSize=") && !strings.Contains(text, "\nzkd.walSegmentSizeKb=") {
		cfg.WALSegmentSize = 128 << 10 // less than a file may ask for: so that starts are quick
	}
	return cfg
}

func startWith(t testing.TB, opts Options) *testServer {
	t.Helper()
	s := newTestServer(t, opts)
	if err := s.Start(t.Context()); err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newTestServer(t testing.TB, opts Options) *testServer {
	t.Helper()
	l := newMemListener()
	core, logged := observer.New(zap.WarnLevel)
	secure := newMemListener()
	mine := opts
	mine.Logger = zap.New(core)
	if opts.Listen == nil {
		mine.Listen = func(_, addr string) (net.Listener, error) {
			if strings.HasSuffix(addr, fmt.Sprintf(":%d", opts.Config.ClientTLS.Port)) {
				return secure, nil
			}
			return l, nil
		}
	}
	s, err := New(mine)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	slept, set := new(atomic.Int64), new(atomic.Int64)
	s.clock.SuspendedTotal = func() time.Duration { return time.Duration(slept.Load()) }
	s.clock.Read = func() (time.Duration, time.Time) {
		mono, wall := s.clock.System()
		return mono, wall.Add(time.Duration(slept.Load() + set.Load()))
	}
	return &testServer{Server: s, t: t, opts: opts, net: l, secure: secure, logged: logged, slept: slept, set: set}
}

// suspend makes the server's clocks read as after a suspension of length d: the monotonic
// one has stood still, the others have not.
func (s *testServer) suspend(d time.Duration) { s.slept.Add(int64(d)) }

// setClock sets the wall clock ahead, or back if d is negative.
func (s *testServer) setClock(d time.Duration) { s.set.Add(int64(d)) }

// restart stops the server and starts another one on the same data.
func (s *testServer) restart(t testing.TB) *testServer {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return startWith(t, s.opts)
}

// noErrors fails the test if the server logged an error.
func (s *testServer) noErrors(t testing.TB) {
	t.Helper()
	for _, e := range s.logged.FilterLevelExact(zap.ErrorLevel).All() {
		t.Errorf("server logged: %s %v", e.Message, e.ContextMap())
	}
}

// reply is one frame from the server after the connect response.
type reply struct {
	jute.ReplyHeader
	body []byte
}

func (r reply) String() string {
	if r.Xid == jute.XidNotification {
		e := r.event()
		return fmt.Sprintf("%v %s at %v", e.Type, short(e.Path), r.Zxid)
	}
	return fmt.Sprintf("xid %d zxid %v err %d, %d bytes", r.Xid, r.Zxid, int32(r.Err), len(r.body))
}

func short(path string) string {
	if len(path) > 80 {
		return path[:80] + "..."
	}
	return path
}

func (r reply) event() (e jute.WatcherEvent) {
	d := jute.NewDecoder(r.body)
	e.Decode(&d)
	return e
}

// connections returns how many clients are connected.
func (s *Server) connections() int { return s.overview.read().Connections }

// globalSession looks for a session of the ensemble, and returns its timeout.
func (s *Server) globalSession(id jute.SessionID) (timeoutMs int32, ok bool) {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.state.Tree.Session(id)
}

// frames reads what a server sends.
type frames struct {
	r   *bufio.Reader
	buf []byte
}

func newFrames(nc net.Conn) *frames { return &frames{r: bufio.NewReaderSize(nc, 64<<10)} }

// next returns the next frame, which is valid until the following call.
func (f *frames) next() ([]byte, error) {
	head, err := f.r.Peek(4)
	if err != nil {
		if len(head) > 0 && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head))
	f.r.Discard(4)
	if cap(f.buf) < n {
		f.buf = make([]byte, n)
	}
	f.buf = f.buf[:n]
	_, err = io.ReadFull(f.r, f.buf)
	return f.buf, err
}

// client is a raw client: the test controls its frames.
type client struct {
	t       testing.TB
	nc      *memConn
	stream  net.Conn // what requests and replies pass through: nc, or what it carries
	srv     *testServer
	in      *frames
	xid     int32
	session jute.SessionID
	pass    []byte
	timeout int32
	events  []reply // seen by call
	zxid    jute.Zxid
}

type dialOptions struct {
	ip     string
	window int
}

// dial connects without sending anything.
func (s *testServer) dial(t testing.TB, o dialOptions) *client {
	t.Helper()
	if o.ip == "" {
		o.ip = "10.0.0.2"
	}
	if o.window == 0 {
		o.window = 1 << 20
	}
	nc, err := s.net.dial(o.ip, o.window)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { nc.Close() })
	return &client{t: t, nc: nc, stream: nc, srv: s, in: newFrames(nc)}
}

// connect opens a session of 10 seconds.
func (s *testServer) connect(t testing.TB) *client {
	t.Helper()
	return s.connectFor(t, 10_000)
}

func (s *testServer) connectFor(t testing.TB, timeoutMs int32) *client {
	t.Helper()
	c := s.dial(t, dialOptions{})
	c.establish(&jute.ConnectRequest{TimeoutMs: timeoutMs, Password: make([]byte, 16), HasReadOnly: true})
	if c.session == 0 {
		t.Fatalf("no session")
	}
	return c
}

// resume opens another connection for c's session.
func (c *client) resume(t testing.TB, timeoutMs int32) *client {
	t.Helper()
	n := c.srv.dial(t, dialOptions{})
	n.establish(&jute.ConnectRequest{TimeoutMs: timeoutMs, SessionID: c.session, Password: c.pass, HasReadOnly: true})
	return n
}

// establish sends a connect request and takes the response.
func (c *client) establish(r *jute.ConnectRequest) jute.ConnectResponse {
	c.t.Helper()
	c.sendFrame(r.Append(nil))
	return c.established()
}

func (c *client) established() jute.ConnectResponse {
	c.t.Helper()
	frame, err := c.frame()
	if err != nil {
		c.t.Fatalf("connect response: %v", err)
	}
	var resp jute.ConnectResponse
	d := jute.NewDecoder(frame)
	resp.Decode(&d)
	if d.Err() != nil {
		c.t.Fatalf("connect response % x: %v", frame, d.Err())
	}
	c.session, c.pass, c.timeout = resp.SessionID, resp.Password, resp.TimeoutMs
	return resp
}

func frameOf(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func (c *client) sendFrame(payload []byte) {
	c.t.Helper()
	if _, err := c.stream.Write(frameOf(payload)); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

type record interface{ Append([]byte) []byte }

// request returns the payload of a request.
func requestFrame(xid int32, op jute.OpCode, body record) []byte {
	b := (&jute.RequestHeader{Xid: xid, Type: op}).Append(nil)
	if body != nil {
		b = body.Append(b)
	}
	return b
}

// send sends a request and returns its xid.
func (c *client) send(op jute.OpCode, body record) int32 {
	c.t.Helper()
	c.xid++
	c.sendFrame(requestFrame(c.xid, op, body))
	return c.xid
}

// frame reads one frame.
func (c *client) frame() ([]byte, error) {
	f, err := c.in.next()
	return bytes.Clone(f), err
}

// next reads one reply or event.
func (c *client) next() (r reply, err error) {
	f, err := c.frame()
	if err != nil {
		return r, err
	}
	d := jute.NewDecoder(f)
	r.Decode(&d)
	if d.Err() != nil {
		return r, fmt.Errorf("reply % x: %w", f, d.Err())
	}
	r.body = d.Rest()
	return r, nil
}

// must reads one reply or event, which is required to arrive.
func (c *client) must() reply {
	c.t.Helper()
	r, err := c.next()
	if err != nil {
		c.t.Fatalf("session %v: no reply: %v", c.session, err)
	}
	return r
}

// await reads the reply to xid and sets aside the events before it.
func (c *client) await(xid int32) reply {
	c.t.Helper()
	for {
		r := c.must()
		switch r.Xid {
		case jute.XidNotification, jute.XidFeed:
			c.events = append(c.events, r)
			continue
		case xid:
			c.zxid = max(c.zxid, r.Zxid)
			return r
		}
		c.t.Fatalf("session %v: got %v, want the reply to %d", c.session, r, xid)
	}
}

// call sends a request and returns the reply.
func (c *client) call(op jute.OpCode, body record) reply {
	c.t.Helper()
	return c.await(c.send(op, body))
}

// ok is call for a request that must succeed.
func (c *client) ok(op jute.OpCode, body record) reply {
	c.t.Helper()
	r := c.call(op, body)
	if r.Err != 0 {
		c.t.Fatalf("%v %+v: %v", op, body, r.Err)
	}
	return r
}

// patience ends what hangs outside of bubbles.
const patience = 5 * time.Minute

// eof requires that the connection ends here, and within a given time.
func (c *client) eof(what string) {
	c.t.Helper()
	c.stream.SetReadDeadline(time.Now().Add(30 * time.Second))
	f, err := c.frame()
	if err == nil {
		c.t.Errorf("%s: got % x, want the end of the connection", what, f)
	} else if !errors.Is(err, io.EOF) {
		c.t.Errorf("%s: %v, want EOF", what, err)
	}
}

// quiet requires that nothing has arrived. Its deadline is in the future: a read with a
// deadline that has passed returns nothing, whatever has arrived.
func (c *client) quiet(what string) {
	c.t.Helper()
	c.stream.SetReadDeadline(time.Now().Add(time.Microsecond))
	f, err := c.frame()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("%s: got % x, %v, want nothing", what, f, err)
	}
	c.stream.SetReadDeadline(time.Time{})
}

func (c *client) ping() {
	c.t.Helper()
	c.sendFrame(requestFrame(jute.XidPing, jute.OpPing, nil))
	c.await(jute.XidPing)
}

var openACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}

func create(path string, data string, mode jute.CreateMode) *jute.CreateRequest {
	return &jute.CreateRequest{Path: path, Data: []byte(data), ACL: openACL, Mode: mode}
}

func (c *client) create(path, data string) { c.t.Helper(); c.ok(jute.OpCreate, create(path, data, 0)) }

func (c *client) ephemeral(path string) {
	c.t.Helper()
	c.ok(jute.OpCreate, create(path, "", jute.ModeEphemeral))
}

func (c *client) set(path, data string) reply {
	c.t.Helper()
	return c.ok(jute.OpSetData, set(path, data))
}

func set(path, data string) *jute.SetDataRequest {
	return &jute.SetDataRequest{Path: path, Data: []byte(data), Version: -1}
}

func get(path string, watch bool) *jute.PathWatchRequest {
	return &jute.PathWatchRequest{Path: path, Watch: watch}
}

func del(path string) *jute.DeleteRequest { return &jute.DeleteRequest{Path: path, Version: -1} }

// get returns a node's data, or false if it does not exist.
func (c *client) get(path string) (string, bool) {
	c.t.Helper()
	r := c.call(jute.OpGetData, get(path, false))
	if r.Err == jute.ErrNoNode {
		return "", false
	}
	if r.Err != 0 {
		c.t.Fatalf("getData %s: %v", path, r.Err)
	}
	return dataOf(r), true
}

func dataOf(r reply) string {
	d := jute.NewDecoder(r.body)
	return string(d.Buffer())
}

func (c *client) exists(path string) bool {
	c.t.Helper()
	_, ok := c.get(path)
	return ok
}
