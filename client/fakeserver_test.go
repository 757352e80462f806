package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// fakeNet is a network in memory whose servers do what a test tells them, step by
// step. It is made for synctest bubbles: nothing in it waits for the real world.
type fakeNet struct {
	t        testing.TB
	accepted chan *fakeConn

	mu    sync.Mutex
	down  map[string]error // by address: what dialing it fails with
	tried []fakeDial
}

// fakeDial is an attempt to connect.
type fakeDial struct {
	address string
	at      time.Time
}

var (
	errRefused = errors.New("connection refused")
	errHang    = errors.New("no answer, ever") // in fakeNet.down: dialing waits until its context ends
)

func newFakeNet(t testing.TB) *fakeNet {
	return &fakeNet{t: t, accepted: make(chan *fakeConn, 1000), down: map[string]error{}}
}

func (n *fakeNet) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	n.tried = append(n.tried, fakeDial{address, time.Now()})
	err := n.down[address]
	n.mu.Unlock()
	switch err {
	case nil:
	case errHang:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	default:
		return nil, err
	}
	client, server := net.Pipe()
	n.accepted <- &fakeConn{Conn: server, t: n.t, address: address, in: bufio.NewReader(server)}
	return client, nil
}

// setDown makes dialing the addresses fail with err; nil lets it succeed.
func (n *fakeNet) setDown(err error, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range addresses {
		n.down[a] = err
	}
}

// dials returns the attempts so far.
func (n *fakeNet) dials() []fakeDial {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.tried)
}

// patience is how long, of the bubble's time, a step of a test may take.
const patience = 5 * time.Minute

// accept returns the next connection.
func (n *fakeNet) accept() *fakeConn {
	n.t.Helper()
	select {
	case c := <-n.accepted:
		return c
	case <-time.After(patience):
		n.t.Fatal("the client does not connect")
		return nil
	}
}

// connect accepts a connection and makes it the session's.
func (n *fakeNet) connect() *fakeConn {
	n.t.Helper()
	c := n.accept()
	c.greet()
	return c
}

// options completes o for a client in this network: with its dialer, without the
// shuffling and without a log, unless o says otherwise.
func (n *fakeNet) options(o Options) Options {
	o.Dial, o.Fixed = n.dial, true
	if o.Logger == nil {
		o.Logger = NoLog
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(1, 2))
	}
	return o
}

// newClient makes a client that is closed without a word when the test ends.
func (n *fakeNet) newClient(servers string, o Options) *Client {
	n.t.Helper()
	c, err := New(servers, n.options(o))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(c.s.abort)
	return c
}

// fakeConn is the server's end of a connection.
type fakeConn struct {
	net.Conn
	t       testing.TB
	address string
	in      *bufio.Reader
	// mute makes expect hand out pings, too, instead of answering them.
	mute bool
}

// request is what a client sent after the connect request.
type request struct {
	xid  int32
	op   jute.OpCode
	body []byte
}

// record is what a reply's body is made of.
type record interface{ Append([]byte) []byte }

const fakeSession = SessionID(0x1234)

var fakePassword = []byte("sixteen bytes!!!")

// frame reads one frame.
func (c *fakeConn) frame() ([]byte, error) {
	return jute.ReadFrame(c.in, 64<<20)
}

// greeting reads the connect request.
func (c *fakeConn) greeting() (r jute.ConnectRequest) {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	b, err := c.frame()
	if err != nil {
		c.t.Fatalf("connect request: %v", err)
	}
	d := jute.NewDecoder(b)
	r.Decode(&d)
	if d.Err() != nil {
		c.t.Fatalf("connect request: %v", d.Err())
	}
	return r
}

// greet takes the session, with the timeout that the client asks for.
func (c *fakeConn) greet() jute.ConnectRequest {
	c.t.Helper()
	r := c.greeting()
	c.welcome(jute.ConnectResponse{TimeoutMs: r.TimeoutMs, SessionID: fakeSession, Password: fakePassword})
	return r
}

// welcome answers a connect request.
func (c *fakeConn) welcome(r jute.ConnectResponse) {
	c.t.Helper()
	r.HasReadOnly = true
	if r.Password == nil {
		r.Password = make([]byte, jute.PasswordLen)
	}
	c.send(r.Append(nil))
}

// expire answers a connect request by saying that there is no such session.
func (c *fakeConn) expire() {
	c.t.Helper()
	c.greeting()
	c.welcome(jute.ConnectResponse{})
}

// send writes a frame; synctest.Wait makes sure that the client is done with it.
func (c *fakeConn) send(payload []byte) {
	c.t.Helper()
	b, mark := jute.BeginFrame(nil)
	c.raw(jute.EndFrame(append(b, payload...), mark))
}

// raw writes bytes.
func (c *fakeConn) raw(b []byte) {
	c.t.Helper()
	c.SetWriteDeadline(time.Now().Add(patience))
	if _, err := c.Write(b); err != nil {
		c.t.Fatalf("the client does not read: %v", err)
	}
}

// read returns the next request; pings are answered unless c is mute.
func (c *fakeConn) read() (request, error) {
	c.SetReadDeadline(time.Now().Add(patience))
	for {
		b, err := c.frame()
		if err != nil {
			return request{}, err
		}
		d := jute.NewDecoder(b)
		var h jute.RequestHeader
		h.Decode(&d)
		r := request{xid: h.Xid, op: h.Type, body: d.Rest()}
		if r.op != jute.OpPing || c.mute {
			return r, d.Err()
		}
		c.pong()
	}
}

// expect returns the next request, which must be an op.
func (c *fakeConn) expect(op jute.OpCode) request {
	c.t.Helper()
	r, err := c.read()
	if err != nil {
		c.t.Fatalf("want %v, got %v", op, err)
	}
	if r.op != op {
		c.t.Fatalf("want %v, got %v %q", op, r.op, r.body)
	}
	return r
}

// expectEnd fails unless the client closes the connection without another request.
func (c *fakeConn) expectEnd() {
	c.t.Helper()
	if r, err := c.read(); err == nil {
		c.t.Fatalf("want the end of the connection, got %v %q", r.op, r.body)
	}
}

// pending returns the operations that have been sent and not read yet, without
// waiting for more.
func (c *fakeConn) pending() (ops []jute.OpCode) {
	c.t.Helper()
	for {
		c.SetReadDeadline(time.Now().Add(time.Nanosecond))
		b, err := c.frame()
		if err != nil {
			return ops
		}
		d := jute.NewDecoder(b)
		var h jute.RequestHeader
		h.Decode(&d)
		ops = append(ops, h.Type)
	}
}

func (c *fakeConn) pong() {
	c.t.Helper()
	h := jute.ReplyHeader{Xid: jute.XidPing}
	c.send(h.Append(nil))
}

// reply answers a request with success; body may be nil.
func (c *fakeConn) reply(r request, zxid Zxid, body record) {
	c.t.Helper()
	h := jute.ReplyHeader{Xid: r.xid, Zxid: zxid}
	b := h.Append(nil)
	if body != nil {
		b = body.Append(b)
	}
	c.send(b)
}

// refuse answers a request with an error.
func (c *fakeConn) refuse(r request, zxid Zxid, code jute.Code) {
	c.t.Helper()
	h := jute.ReplyHeader{Xid: r.xid, Zxid: zxid, Err: code}
	c.send(h.Append(nil))
}

// notify sends a watch event.
func (c *fakeConn) notify(typ EventType, path string, zxid Zxid) {
	c.t.Helper()
	h := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}
	e := jute.WatcherEvent{Type: jute.EventType(typ), State: jute.StateSyncConnected, Path: path}
	c.send(e.Append(h.Append(nil)))
}

// path returns the path that most requests begin with.
func (r request) path() string {
	d := jute.NewDecoder(r.body)
	return d.String()
}

// watched returns the path and the flag of a read that can set a watch.
func (r request) watched() (path string, watch bool) {
	d := jute.NewDecoder(r.body)
	var q jute.PathWatchRequest
	q.Decode(&d)
	return q.Path, q.Watch
}

// setWatches decodes either form.
func (r request) setWatches() (q jute.SetWatchesRequest) {
	d := jute.NewDecoder(r.body)
	if r.op == jute.OpSetWatches2 {
		q.Decode2(&d)
	} else {
		q.Decode(&d)
	}
	return q
}

// answerGet answers a get with data.
func (c *fakeConn) answerGet(r request, zxid Zxid, data string) {
	c.t.Helper()
	c.reply(r, zxid, &jute.GetDataResponse{Data: []byte(data), Stat: Stat{Mzxid: zxid}})
}

// --- What tests have in common

// ended is what an operation that a test started in a goroutine came to.
type ended[T any] struct {
	val T
	err error
}

// goDo runs fn in a goroutine.
func goDo[T any](fn func() (T, error)) <-chan ended[T] {
	ch := make(chan ended[T], 1)
	go func() {
		v, err := fn()
		ch <- ended[T]{v, err}
	}()
	return ch
}

// goErr runs fn in a goroutine.
func goErr(fn func() error) <-chan error {
	ch := make(chan error, 1)
	go func() { ch <- fn() }()
	return ch
}

// within returns what comes from ch, or fails the test.
func within[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-ch:
		if !ok {
			t.Fatalf("%s: the channel is closed", what)
		}
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing within %v", what, patience)
		panic("unreachable")
	}
}

// quiet fails the test if ch has something, or is closed.
func quiet[T any](t testing.TB, what string, ch <-chan T) {
	t.Helper()
	select {
	case v, ok := <-ch:
		t.Fatalf("%s: %v (open: %v), want nothing", what, v, ok)
	default:
	}
}

// waitState waits until the session is in the state.
func waitState(t testing.TB, c *Client, want State) {
	t.Helper()
	deadline := time.After(patience)
	for {
		c.s.mu.Lock()
		state, changed := c.s.state, c.s.changedLocked()
		c.s.mu.Unlock()
		if state == want {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("the session is %v, want %v", state, want)
		}
	}
}

// bubble runs a test in fake time. All goroutines must be gone at its end.
func bubble(t *testing.T, fn func(t *testing.T, n *fakeNet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(t, newFakeNet(t)) })
}

// logBook is a Logger that keeps what it is told.
type logBook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logBook) Log(_ context.Context, level slog.Level, msg string, args ...any) {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s", level, msg)
	for i := 0; i+1 < len(args); i += 2 {
		fmt.Fprintf(&b, " %v=%v", args[i], args[i+1])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, b.String())
}

// with returns the lines that contain the text.
func (l *logBook) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// tableSize counts the watches that the session keeps.
func tableSize(c *Client) (count int) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for _, m := range c.s.watches.byPath {
		for _, list := range m {
			count += len(list)
		}
	}
	return count
}

var bg = context.Background()
