package edge

import (
	"bytes"
	"container/list"
	"context"
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
	"github.com/zkd-project/zkd/internal/frames"
	"github.com/zkd-project/zkd/internal/sockets"
	"github.com/zkd-project/zkd/jute"
)

// maxUnread is how many bytes wait for a client that does not read, before nothing more is read for it.
const maxUnread = 4 << 20

// conn is the connection of one client.
type conn struct {
	e       *Edge
	nc      net.Conn
	in      *frames.Reader               // owned by the goroutine that reads from the client
	begins  atomic.Bool                  // it waits for its session
	relay   atomic.Pointer[client.Relay] // nil before there is a session
	began   time.Time
	sent    atomic.Int64 // requests of the client
	replied atomic.Int64 // those with a reply
	got     atomic.Int64 // frames for the client

	caller caller  // guarded by Edge.mu
	user   *string // whom the edge speaks for, or nil: likewise; only the goroutine that reads from the client changes it

	silent *list.Element // its place in Edge.silent, or nil: likewise

	shared *shared // the memory that it has, or nil

	passing atomic.Pointer[passing] // the client is to be passed on

	closes   bool // the client has asked for the end of its session; of the goroutine that reads from it
	connects int  // upstream; of one goroutine of the relay

	mu       sync.Mutex
	out      []byte    // waits to be written
	spare    []byte    // what out was before
	over     bool      // nothing is written after out
	paused   bool      // nothing is written
	writing  bool      // there is a writer
	unserved bool      // there will be no writer any more
	changed  sync.Cond // out has become shorter, or there is no writer
}

func newConn(e *Edge, nc net.Conn) *conn {
	c := &conn{
		e: e, nc: e.sockets.Of(nc), began: time.Now(), paused: true,
	}
	c.changed.L = &c.mu
	c.in = frames.New(c.nc, e.maxRequest(), "edge.maxBuffer")
	return c
}

// serve serves a new client.
func (c *conn) serve() {
	r, answered, err := c.hello()
	if err != nil {
		c.e.o.Log.Debug("no session", "client", c.nc.RemoteAddr().String(), "err", err)
	}
	if r == nil {
		c.leave()
		return
	}
	c.e.figures.sessions.Add(1)
	c.append(answered)
	c.session(r)
}

// leave is called when the connection has ended here.
func (c *conn) leave() {
	c.nc.Close()
	if a := c.passing.Swap(nil); a != nil {
		close(a.over)
	}
	c.e.gone(c)
	c.e.work.Done()
}

// session serves a client that has a session.
func (c *conn) session(r *client.Relay) {
	c.relay.Store(r)
	c.unpause()
	if !c.rest() {
		c.read()
	}
}

// errIdle ends the goroutine that reads from a client which is idle.
var errIdle = errors.New("the client is idle")

// read serves a client until its connection ends, another edge has it, or it is idle: then read is called again when the client has sent something.
func (c *conn) read() {
	r := c.relay.Load()
	err := c.forward(r)
	if err == errIdle {
		return
	}
	defer c.leave()
	c.e.o.Log.Debug("client has gone", "client", c.nc.RemoteAddr().String(), "session", r.Client().Session().ID(), "err", err)
	c.finish()
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

// drop waits for the writer, forgets what waits for the client, and lets nothing wait for it any more.
func (c *conn) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.writing {
		c.changed.Wait()
	}
	c.e.figures.queued.Add(-int64(len(c.out)))
	c.out, c.unserved = nil, true
}

// hello answers a four-letter word, or makes the session that the client asks for.
func (c *conn) hello() (*client.Relay, []byte, error) {
	c.nc.SetDeadline(time.Now().Add(helloWithin))
	first, err := c.in.AwaitWord()
	if err != nil {
		return nil, nil, err
	}
	if word, ok := fourletter.Lookup(first); ok {
		_, err := io.WriteString(c.nc, c.e.answer(word))
		return nil, nil, err
	}
	frame, err := c.in.AwaitFrame()
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
	r := c.connect(&q)
	within := time.Duration(max(q.TimeoutMs, 1000)) * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(c.e.stop, within, fmt.Errorf("no server has answered within %v", within))
	defer cancel()
	c.begins.Store(true)
	unwatch := c.watch(cancel)
	hello, err := c.await(ctx, r, &q)
	unwatch()
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

// watch calls gone if the client goes while it waits for its session: the wait may be as long as the timeout that it has asked for. What it sends meanwhile is
// kept, up to a limit. Nobody else reads before unwatch.
func (c *conn) watch(gone func()) (unwatch func()) {
	done := make(chan struct{})
	t := time.AfterFunc(promptly, func() {
		defer close(done)
		for c.in.Buffered() < frames.BusyBuffer {
			if _, err := c.in.Fill(); err != nil {
				gone()
				return
			}
		}
	})
	return func() {
		if t.Stop() {
			return
		}
		c.nc.SetReadDeadline(past)
		<-done
		c.nc.SetReadDeadline(time.Time{})
	}
}

// refused notes if the servers refuse the edge, or its client's identity.
func (c *conn) refused(r *client.Relay) {
	err := r.Client().Status().Err
	if !errors.Is(err, client.ErrAuthFailed) {
		return
	}
	c.e.figures.denied.Add(1)
	c.e.figures.deniedAt.Store(time.Now().UnixNano())
	c.e.figures.denial.set(console.Line(c.e.text(err)))
	c.e.o.Log.Warn("the servers refuse a client", "client", c.address(), "uid", c.caller.user, "err", err)
}

// hi returns the answer to a connect request. Some clients look at its length.
func (c *conn) hi(hello *jute.ConnectResponse, q *jute.ConnectRequest) []byte {
	hello.HasReadOnly = q.HasReadOnly
	b, mark := jute.BeginFrame(nil)
	return jute.EndFrame(hello.Append(b), mark)
}

// connect begins the session upstream.
func (c *conn) connect(q *jute.ConnectRequest) *client.Relay {
	return c.newRelay(client.RelayOptions{
		Timeout: time.Duration(max(q.TimeoutMs, 1)) * time.Millisecond, AllowReadOnly: q.ReadOnly, Insist: q.ProtocolVersion == jute.ProtocolOperator,
		User: c.e.identify(c), Session: client.SessionKey{ID: q.SessionID, Password: q.Password}, Seen: q.LastZxidSeen,
	})
}

func (c *conn) newRelay(o client.RelayOptions) *client.Relay {
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
	return c.e.relays.New(c, o)
}

// Carry makes a connection to a server.
func (c *conn) Carry(ctx context.Context, server, address string, open func(context.Context) (net.Conn, error)) (net.Conn, error) {
	if p := c.e.pool; p != nil {
		return p.Dial(ctx, server+" at "+address, c.address(), open)
	}
	return open(ctx)
}

// Attempted is called when a server was tried.
func (c *conn) Attempted(server string, err error) {
	if err == nil || errors.Is(err, client.ErrSessionExpired) {
		c.e.figures.failure.set("") // the server has answered
	}
	switch {
	case errors.Is(err, client.ErrSessionExpired):
	case err != nil:
		c.e.figures.failed.Add(1)
		c.e.figures.failure.set(server + ": " + c.e.text(err))
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
		frame, err := c.in.AwaitFrame()
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
			c.answer(jute.ReplyHeader{Xid: h.Xid, Zxid: r.Client().Status().LastZxid}, nil, true)
			if c.rest() {
				return errIdle
			}
		case jute.OpAuth:
			if speaks(d.Rest()) {
				c.answer(jute.ReplyHeader{Xid: h.Xid, Err: jute.ErrAuthFailed}, nil, true)
				return errSpeaks
			}
			r.Forward(h.Xid, h.Type, d.Rest())
		default:
			c.closes = c.closes || h.Type == jute.OpCloseSession
			r.Forward(h.Xid, h.Type, d.Rest())
		}
	}
}

// rest makes the client idle, if it can be: nothing is read and no buffer is kept until it sends something. So is a new client, and one that has sent a
// ping, as clients do when they have sent nothing else for a while.
func (c *conn) rest() bool {
	nc, ok := c.nc.(*sockets.Conn)
	if !ok || !c.in.Release() {
		return false
	}
	c.mu.Lock()
	if !c.writing && len(c.out) == 0 {
		c.out, c.spare = nil, nil
	}
	c.mu.Unlock()
	return nc.Await(func() { go c.read() })
}

func (e *Edge) maxRequest() int {
	if most := e.o.Client.MaxRequest; most > 0 {
		return most
	}
	return client.DefaultMaxRequest
}

// Reply passes the answer to a request on. The relay's reader calls it.
func (c *conn) Reply(a client.Forwarded) {
	if a.Remembered {
		c.e.figures.cachedReads.Add(1)
	}
	if a.Lost == nil {
		c.answer(jute.ReplyHeader{Xid: a.Xid, Zxid: a.Zxid, Err: a.Err}, a.Body, a.Remembered)
		if a.Op == jute.OpCloseSession || a.Err == jute.ErrUnimplemented { // as a server ends the connection
			c.finish()
		}
		return
	}
	if a.Expired {
		c.answer(jute.ReplyHeader{Xid: a.Xid, Zxid: a.Zxid, Err: jute.ErrSessionExpired}, nil, false)
		return
	}
	c.Ended(c.relay.Load()) // replies have an order, and one is missing
}

// Event passes the event of a watch on.
func (c *conn) Event(zxid client.Zxid, ev jute.WatcherEvent) {
	c.e.figures.events.Add(1)
	c.e.shown(zxid)
	b, mark := jute.BeginFrame(nil)
	h := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}
	c.append(jute.EndFrame(ev.Append(h.Append(b)), mark))
}

// answer answers a request. read: the goroutine that reads from the client does so.
func (c *conn) answer(h jute.ReplyHeader, body []byte, read bool) {
	c.e.figures.replies.Add(1)
	all := c.replied.Add(1) == c.sent.Load()
	if read {
		all = c.in.Buffered() == 0
	}
	c.e.shown(h.Zxid)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.makeRoomLocked()
	b, mark := jute.BeginFrame(c.out)
	c.putLocked(jute.EndFrame(append(h.Append(b), body...), mark), all)
}

func (c *conn) append(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.makeRoomLocked()
	c.putLocked(append(c.out, frame...), false)
}

// makeRoomLocked waits until there is room for another frame, and counts it.
func (c *conn) makeRoomLocked() {
	c.got.Add(1)
	for len(c.out) > maxUnread && !c.over {
		c.changed.Wait()
	}
}

// putLocked lets out be written, which is what waited and more. all: the client waits for this, and for no more. Nothing waits for a client that is not
// served any more.
func (c *conn) putLocked(out []byte, all bool) {
	if c.unserved {
		return
	}
	c.e.figures.queued.Add(int64(len(out) - len(c.out)))
	c.out = out
	if nc, ok := c.nc.(*sockets.Conn); ok && all && !c.writing && !c.paused && !c.over { // another goroutine would take longer
		n, _ := nc.TryWrite(c.out)
		c.e.figures.queued.Add(-int64(n))
		c.out = c.out[:copy(c.out, c.out[n:])]
	}
	c.startLocked()
}

// startLocked starts a writer if there is something to be written, or the connection is to be closed.
func (c *conn) startLocked() {
	if !c.writing && c.writesLocked() {
		c.writing = true
		go c.write()
	}
}

func (c *conn) writesLocked() bool {
	return !c.unserved && (len(c.out) > 0 && !c.paused || c.over)
}

// finish lets the writer end when it has written what waits.
func (c *conn) finish() {
	c.mu.Lock()
	c.over = true
	c.changed.Broadcast()
	c.startLocked()
	c.mu.Unlock()
}

// write writes to the client while there is something to be written. When all is over, as the client has gone, or its session has, it closes
// the connection.
func (c *conn) write() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.writesLocked() {
		b, over := c.out, c.over
		c.out, c.spare = c.spare[:0], nil
		c.changed.Broadcast()
		c.mu.Unlock()
		if over { // a client that does not read its last replies is not waited for
			c.nc.SetWriteDeadline(time.Now().Add(helloWithin))
		}
		n, err := c.nc.Write(b)
		c.mu.Lock()
		if err != nil && c.paused && !c.over {
			c.e.figures.queued.Add(-int64(n))
			c.out = append(bytes.Clone(b[n:]), c.out...)
			break
		}
		c.e.figures.queued.Add(-int64(len(b)))
		if c.spare = b; cap(b) > 64<<10 {
			c.spare = nil
		}
		if err != nil || over {
			c.nc.Close()
			c.over, c.unserved = true, true
		}
	}
	c.writing = false
	c.changed.Broadcast()
}

// Ended is called when there is no session upstream any more, or no reply to a request.
func (c *conn) Ended(r *client.Relay) {
	c.mu.Lock()
	gone := c.over
	c.over = true
	c.mu.Unlock()
	if gone || c.relay.Load() == nil { // the client has not got a session yet, and the writer not begun
		return
	}
	defer c.finish()
	if errors.Is(r.Client().Status().Err, client.ErrSessionMoved) {
		c.e.figures.moved.Add(1)
	} else {
		c.e.figures.lost.Add(1)
		c.e.figures.lastLost.set(fmt.Sprintf("%s, %s: %s", time.Now().UTC().Format(time.RFC3339), c.address(), whyEnded(r)))
	}
	c.e.o.Log.Info("a client's connection ends with the one upstream", "client", c.nc.RemoteAddr().String(),
		"session", r.Client().Session().ID(), "expired", r.Expired(), "err", r.Client().Status().Err)
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
