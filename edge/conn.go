package edge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/internal/console"
	"github.com/zkd-project/zkd/jute"
)

// bufferSize is how many bytes are read from a client at once, and more for larger requests.
const bufferSize = 1 << 10

// maxUnread is how many bytes wait for a client that does not read, before nothing more is read for it.
const maxUnread = 4 << 20

// conn is the connection of one client.
type conn struct {
	e       *Edge
	nc      net.Conn
	in      *bufio.Reader
	before  *bytes.Reader                // what in reads before the connection, or nil
	part    []byte                       // of a large request, after an error of in
	begins  atomic.Bool                  // it waits for its session
	relay   atomic.Pointer[client.Relay] // nil before there is a session
	began   time.Time
	sent    atomic.Int64 // requests of the client
	replied atomic.Int64 // those with a reply
	got     atomic.Int64 // frames for the client

	caller caller  // guarded by Edge.mu
	user   *string // whom the edge speaks for, or nil: likewise; only the goroutine that reads from the client changes it

	shared *shared // the memory that it has, or nil

	to     atomic.Pointer[peer] // the client is to be passed on
	tried  chan struct{}        // capacity 1: that has been tried
	served chan struct{}        // closed when the connection has ended here

	closes   bool // the client has asked for the end of its session; of the goroutine that reads from it
	connects int  // upstream; of one goroutine of the relay

	mu       sync.Mutex
	out      []byte        // waits to be written
	over     bool          // nothing is written after out
	paused   bool          // the writer stops
	unserved bool          // there is no writer any more
	written  chan struct{} // closed when the writer has ended; of the goroutine that reads
	room     *sync.Cond    // out has become shorter
	wake     chan struct{}
}

func newConn(e *Edge, nc net.Conn) *conn {
	c := &conn{
		e: e, nc: nc, in: bufio.NewReaderSize(nc, bufferSize), began: time.Now(), wake: make(chan struct{}, 1), tried: make(chan struct{}, 1), served: make(chan struct{}),
	}
	c.room = sync.NewCond(&c.mu)
	return c
}

// serve serves the client until its connection ends.
func (c *conn) serve() {
	defer c.nc.Close()
	r, answered, err := c.hello()
	if err != nil {
		c.e.o.Log.Debug("no session", "client", c.nc.RemoteAddr().String(), "err", err)
	}
	if r == nil {
		return
	}
	c.e.figures.sessions.Add(1)
	c.append(answered)
	c.session(r)
}

// session serves a client that has a session, until its connection ends or another edge has it.
func (c *conn) session(r *client.Relay) {
	c.relay.Store(r)
	c.startWriter(r)
	err := c.forward(r)
	c.e.o.Log.Debug("client has gone", "client", c.nc.RemoteAddr().String(), "session", r.Client().Session().ID(), "err", err)
	c.finish()
	<-c.written
	c.drop()
	c.relay.Store(nil)
	if err == errPassed {
		return
	}
	if c.e.o.Grace > 0 && !c.closes {
		c.e.outlive(r)
	}
	r.Abort()
}

// drop forgets what waits for a client that has no writer, and lets nothing wait for it any more.
func (c *conn) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.e.figures.queued.Add(-int64(len(c.out)))
	c.out, c.unserved = nil, true
}

func (c *conn) startWriter(r *client.Relay) {
	c.mu.Lock()
	c.paused = false
	c.mu.Unlock()
	written := make(chan struct{})
	c.written = written
	go func() {
		defer close(written)
		c.write(r)
	}()
	c.wakeWriter()
}

// hello answers a four-letter word, or makes the session that the client asks for.
func (c *conn) hello() (*client.Relay, []byte, error) {
	c.nc.SetDeadline(time.Now().Add(helloWithin))
	first, err := c.in.Peek(4)
	if err != nil {
		return nil, nil, err
	}
	if word, ok := fourletter.Lookup([4]byte(first)); ok {
		_, err := io.WriteString(c.nc, c.e.answer(word))
		return nil, nil, err
	}
	frame, err := c.next()
	if err != nil {
		return nil, nil, err
	}
	c.nc.SetDeadline(time.Time{})
	if !c.e.admit(c) {
		return nil, nil, errors.New("there are as many clients as there may be, or too much waits for them")
	}
	var q jute.ConnectRequest
	d := jute.NewDecoder(frame)
	if q.Decode(&d); d.Err() != nil && !jute.Extended(&d) {
		return nil, nil, fmt.Errorf("connect request: %w", d.Err())
	}
	r, err := c.connect(&q)
	if err != nil {
		return nil, nil, err
	}
	within := time.Duration(max(q.TimeoutMs, 1000)) * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(c.e.stop, within, fmt.Errorf("no server has answered within %v", within))
	defer cancel()
	c.begins.Store(true)
	hello, err := c.await(ctx, r, &q)
	c.begins.Store(false)
	switch {
	case err == errAway:
		r.Abort()
		return nil, nil, c.readOnly(&q)
	case r.Expired():
		hello = jute.ConnectResponse{Password: make([]byte, jute.PasswordLen)}
		c.nc.SetWriteDeadline(time.Now().Add(helloWithin))
		_, err = c.nc.Write(c.hi(&hello, &q))
		fallthrough
	case err != nil:
		c.refused(r)
		r.Abort()
		return nil, nil, err
	}
	return r, c.hi(&hello, &q), nil
}

// refused notes if the servers refuse the edge, or its client's identity.
func (c *conn) refused(r *client.Relay) {
	err := r.Client().Status().Err
	if !errors.Is(err, client.ErrAuthFailed) {
		return
	}
	c.e.figures.denied.Add(1)
	c.e.figures.deniedAt.Store(time.Now().UnixNano())
	c.e.figures.denial.set(console.Line(err.Error()))
	c.e.o.Log.Warn("the servers refuse a client", "client", c.address(), "uid", c.caller.user, "err", err)
}

// hi returns the answer to a connect request. Some clients look at its length.
func (c *conn) hi(hello *jute.ConnectResponse, q *jute.ConnectRequest) []byte {
	hello.HasReadOnly = q.HasReadOnly
	b, mark := jute.BeginFrame(nil)
	return jute.EndFrame(hello.Append(b), mark)
}

// connect begins the session upstream.
func (c *conn) connect(q *jute.ConnectRequest) (*client.Relay, error) {
	o := client.RelayOptions{Options: c.e.o.Client, Seen: q.LastZxidSeen}
	o.Timeout = time.Duration(max(q.TimeoutMs, 1)) * time.Millisecond
	o.AllowReadOnly, o.Insist = q.ReadOnly, q.ProtocolVersion == jute.ProtocolOperator
	o.Session = client.SessionKey{ID: q.SessionID, Password: q.Password}
	o.User = c.e.identify(c)
	return c.newRelay(o)
}

func (c *conn) newRelay(o client.RelayOptions) (*client.Relay, error) {
	o.Reply, o.Event, o.Trace.Attempt = c.reply, c.event, c.attempted
	user := o.User
	if o.Record != nil {
		user = o.Record.User()
	}
	if awayLent.Planted() && len(c.e.o.Cached) == 0 {
		user = nil
	}
	if c.shared = c.e.memory.take(user); c.shared != nil && len(c.e.o.Cached) > 0 {
		o.Memory = c.shared.m
	}
	if p := c.e.pool; p != nil {
		o.Carry = func(ctx context.Context, server, address string, open func(context.Context) (net.Conn, error)) (net.Conn, error) {
			return p.Dial(ctx, server+" at "+address, c.address(), open)
		}
	}
	return client.NewRelay(c.e.o.Upstream, o)
}

// attempted is called when a server was tried.
func (c *conn) attempted(server string, _ time.Duration, err error) {
	if err == nil {
		c.e.figures.failure.set("")
	}
	switch {
	case err != nil:
		c.e.figures.failed.Add(1)
		c.e.figures.failure.set(server + ": " + err.Error())
	case c.connects > 0:
		c.e.figures.resumed.Add(1)
		fallthrough
	default:
		c.connects++
	}
}

// errPassed ends forward when another edge has the client.
var errPassed = errors.New("another edge has taken the client over")

// errSpeaks ends the connection of a client that uses the scheme of edges.
var errSpeaks = errors.New("a client of the edge wants to speak for others")

// speaks reports whether an auth packet is one by which edges speak for their clients.
func speaks(packet []byte) bool {
	d := jute.NewDecoder(packet)
	var a jute.AuthRequest
	a.Decode(&d)
	is := a.Scheme == jute.SchemeEdge
	is = is && !identityStolen.Planted()
	return is
}

// forward passes the client's requests on.
func (c *conn) forward(r *client.Relay) error {
	for {
		frame, err := c.next()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if c.pass(r) {
				return errPassed
			}
			continue
		case err != nil:
			return err
		}
		d := jute.NewDecoder(frame)
		var h jute.RequestHeader
		if h.Decode(&d); d.Err() != nil {
			return fmt.Errorf("request header: %w", d.Err())
		}
		c.sent.Add(1)
		c.e.figures.requests.Add(1)
		switch h.Type {
		case jute.OpPing:
			r.Ping()
			c.answer(jute.ReplyHeader{Xid: h.Xid, Zxid: r.Client().Status().LastZxid}, nil)
		case jute.OpAuth:
			if speaks(d.Rest()) {
				c.answer(jute.ReplyHeader{Xid: h.Xid, Err: jute.ErrAuthFailed}, nil)
				return errSpeaks
			}
			r.Forward(h.Xid, h.Type, d.Rest())
		default:
			c.closes = c.closes || h.Type == jute.OpCloseSession
			r.Forward(h.Xid, h.Type, d.Rest())
		}
	}
}

// next returns the next frame, which is valid until the next call.
func (c *conn) next() ([]byte, error) {
	size, err := c.in.Peek(4)
	if err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(size)))
	if most := c.e.maxRequest(); n < 0 || n > most {
		return nil, fmt.Errorf("a request of %d bytes, and the limit is %d", n, most)
	}
	if n += 4; n <= c.in.Size() {
		frame, err := c.in.Peek(n)
		if err != nil {
			return nil, err
		}
		c.in.Discard(n)
		return frame[4:], nil
	}
	var frame bytes.Buffer // grows with what arrives, whatever the length says
	if _, err := io.CopyN(&frame, c.in, int64(n)); err != nil {
		c.part = frame.Bytes()
		return nil, err
	}
	return frame.Bytes()[4:], nil
}

func (e *Edge) maxRequest() int {
	if most := e.o.Client.MaxRequest; most > 0 {
		return most
	}
	return client.DefaultMaxRequest
}

// reply passes the answer to a request on. The relay's reader calls it.
func (c *conn) reply(a client.Forwarded) {
	if a.Remembered {
		c.e.figures.cachedReads.Add(1)
	}
	if a.Lost == nil {
		c.answer(jute.ReplyHeader{Xid: a.Xid, Zxid: a.Zxid, Err: a.Err}, a.Body)
		if a.Op == jute.OpCloseSession || a.Err == jute.ErrUnimplemented { // as a server ends the connection
			c.finish()
		}
		return
	}
	if a.Expired {
		c.answer(jute.ReplyHeader{Xid: a.Xid, Zxid: a.Zxid, Err: jute.ErrSessionExpired}, nil)
		return
	}
	c.ended(c.relay.Load()) // replies have an order, and one is missing
}

// event passes the event of a watch on.
func (c *conn) event(zxid client.Zxid, ev jute.WatcherEvent) {
	c.e.figures.events.Add(1)
	c.e.shown(zxid)
	b, mark := jute.BeginFrame(nil)
	h := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}
	c.append(jute.EndFrame(ev.Append(h.Append(b)), mark))
}

func (c *conn) answer(h jute.ReplyHeader, body []byte) {
	c.e.figures.replies.Add(1)
	c.replied.Add(1)
	c.e.shown(h.Zxid)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.makeRoomLocked()
	b, mark := jute.BeginFrame(c.out)
	c.putLocked(jute.EndFrame(append(h.Append(b), body...), mark))
}

func (c *conn) append(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.makeRoomLocked()
	c.putLocked(append(c.out, frame...))
}

// makeRoomLocked waits until there is room for another frame, and counts it.
func (c *conn) makeRoomLocked() {
	c.got.Add(1)
	for len(c.out) > maxUnread && !c.over {
		c.room.Wait()
	}
}

// putLocked lets out be written, which is what waited and more. Nothing waits for a client that is not served any more.
func (c *conn) putLocked(out []byte) {
	if c.unserved {
		return
	}
	c.e.figures.queued.Add(int64(len(out) - len(c.out)))
	c.out = out
	c.wakeWriter()
}

func (c *conn) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// finish lets the writer end when it has written what waits.
func (c *conn) finish() {
	c.mu.Lock()
	c.over = true
	c.room.Broadcast()
	c.mu.Unlock()
	c.wakeWriter()
}

// write writes to the client until all is over: it has gone, or its session has; or until it is stopped.
func (c *conn) write(r *client.Relay) {
	var spare []byte
	done := r.Done()
	for {
		select {
		case <-c.wake:
		case <-done:
			done = nil
			c.ended(r)
		}
		c.mu.Lock()
		if c.paused && !c.over {
			c.mu.Unlock()
			return
		}
		b, over := c.out, c.over
		c.out = spare[:0]
		c.room.Broadcast()
		c.mu.Unlock()
		if over { // a client that does not read its last replies is not waited for
			c.nc.SetWriteDeadline(time.Now().Add(helloWithin))
		}
		n, err := c.nc.Write(b)
		if err != nil && c.unwritten(b[n:]) {
			c.e.figures.queued.Add(-int64(n))
			return
		}
		c.e.figures.queued.Add(-int64(len(b)))
		if err != nil || over {
			c.nc.Close()
			c.finish()
			return
		}
		if spare = b; cap(spare) > 64<<10 {
			spare = nil
		}
	}
}

// ended is called when there is no session upstream any more, or no reply to a request.
func (c *conn) ended(r *client.Relay) {
	c.mu.Lock()
	gone := c.over
	c.mu.Unlock()
	if gone {
		return
	}
	if errors.Is(r.Client().Status().Err, client.ErrSessionMoved) {
		c.e.figures.moved.Add(1)
	} else {
		c.e.figures.lost.Add(1)
		c.e.figures.lastLost.set(fmt.Sprintf("%s, %s: %s", time.Now().UTC().Format(time.RFC3339), c.address(), whyEnded(r)))
	}
	c.e.o.Log.Info("a client's connection ends with the one upstream", "client", c.nc.RemoteAddr().String(),
		"session", r.Client().Session().ID(), "expired", r.Expired(), "err", r.Client().Status().Err)
	c.finish()
}

// whyEnded says in one line why a client's connection ends.
func whyEnded(r *client.Relay) string {
	if r.Expired() {
		return "the session has ended"
	}
	if err := r.Client().Status().Err; err != nil {
		return console.Line(err.Error())
	}
	return "a request has no reply, or the session can't continue on another connection"
}
