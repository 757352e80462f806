package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// Errors that end a connection.
var (
	// ErrLost is wrapped when the server closes a connection in use.
	ErrLost = errors.New("connection lost")
	// ErrSilent is wrapped when nothing came for longer than the session's
	// timeout although pings were sent.
	ErrSilent = errors.New("server sent nothing for longer than the session timeout")
	// ErrProtocol is wrapped when the bytes of the server can't be matched to
	// requests any more.
	ErrProtocol = errors.New("protocol violated")

	errClosed = errors.New("connection closed")
)

// batchBytes is the size of out buffer at which a batch of requests is written.
const batchBytes = 64 << 10

// clock measures time since its start.
type clock time.Time

func newClock() clock { return clock(time.Now()) }

func (c clock) now() int64 { return int64(time.Since(time.Time(c))) }

// conn is a session with its goroutines. It runs one job at a time, and pings
// the server when there is nothing else to send.
//
// Who holds the turn may send. The sender takes it to start a job, to pace
// one, to ping, and to write what the socket did not take at once. While a job
// runs as fast as its window allows, the reader takes the turn when replies
// have freed slots, and sends the next requests itself: to wake the sender for
// that would cost more than the requests. It never blocks for it, neither on
// the turn nor on the socket, or two full sockets could wait for each other.
type conn struct {
	session
	began  int64 // clock time when connecting began
	ready  int64 // and when the session was there
	clock  clock
	notify func(now int64, event []byte) error // reader: gets each watch event
	jobs   chan *job
	ticker *time.Ticker // time to ping

	turn struct {
		sync.Mutex
		out   []byte // requests not written yet
		xid   int32  // last one used
		wrote bool   // something was written since the last tick
		sent  int64  // requests of the job so far
		pace  pacer  // of the job
		raw   *rawWriter
	}

	// ring holds the requests without replies, [tail, head). Who has the turn
	// advances head, the reader advances tail.
	// Invariant: head - tail <= len(ring).
	ring []pending
	head atomic.Uint64
	tail atomic.Uint64
	job  atomic.Pointer[job] // set before its first request is in the ring
	bell chan struct{}       // rung by the reader when the sender has to look

	wg      sync.WaitGroup
	closing atomic.Bool
	done    chan struct{} // closed when err is set
	fail    sync.Once
	err     error
}

// connOptions says how a connection works.
type connOptions struct {
	timeout    time.Duration // of the session, wished
	window     int           // largest window of its jobs, at least 1
	readBuffer int           // bytes; grows when a frame needs more
	clock      clock
	notify     func(now int64, event []byte) error // must not block; nil: there are no watches
}

// start runs the goroutines of a session.
func start(s session, o connOptions) *conn {
	c := &conn{
		session: s,
		clock:   o.clock,
		notify:  o.notify,
		jobs:    make(chan *job),
		ticker:  time.NewTicker(s.timeout / 3),
		ring:    make([]pending, 1<<bits.Len(uint(o.window))),
		bell:    make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
	c.turn.raw = newRawWriter(s.nc)
	c.wg.Go(c.sender)
	c.wg.Go(func() { c.reader(make([]byte, o.readBuffer)) })
	return c
}

// stop ends the connection with err unless it has ended already.
func (c *conn) stop(err error) {
	c.fail.Do(func() {
		c.err = err
		close(c.done)
		c.nc.Close()
	})
}

// do runs a job to its end: the replies of all its requests have come. It
// returns why the connection ended if that is sooner.
func (c *conn) do(j *job) error {
	j.done = make(chan struct{})
	select {
	case c.jobs <- j:
	case <-c.done:
		return c.err
	}
	select {
	case <-j.done:
		return nil
	case <-c.done:
		return c.err
	}
}

// call sends one request and returns its reply's body. A code that is not 0
// comes as a jute.Code.
func (c *conn) call(op jute.OpCode, body []byte) ([]byte, error) {
	s := single{op: op, body: body}
	if err := c.do(&job{src: &s, count: 1, window: 1}); err != nil {
		return nil, err
	}
	if s.code != 0 {
		return nil, s.code
	}
	return s.reply, nil
}

// close ends the session and returns when both goroutines are gone. It returns
// the error that ended the connection before, if there was one.
func (c *conn) close() error {
	c.closing.Store(true)
	s := single{op: jute.OpCloseSession}
	err := c.do(&job{src: &s, count: 1, window: 1})
	if errors.Is(err, errClosed) {
		err = nil // the server closed right after its reply
	} else if err == nil {
		select {
		case <-c.done:
		case <-time.After(time.Second):
		}
	}
	c.stop(errClosed)
	c.wg.Wait()
	c.ticker.Stop()
	if err == nil && s.code != 0 {
		err = fmt.Errorf("%s: %w", s.op, s.code)
	}
	return err
}

// abandon closes the connection and leaves the session to expire.
func (c *conn) abandon() {
	c.stop(errClosed)
	c.wg.Wait()
	c.ticker.Stop()
}

// sender runs jobs, and pings between them.
func (c *conn) sender() {
	for {
		var err error
		select {
		case j := <-c.jobs:
			if err = c.send(j); err == nil {
				close(j.done)
			}
		case <-c.ticker.C:
			err = c.ping()
		case <-c.done:
			return
		}
		if err != nil {
			c.stop(err)
			return
		}
	}
}

// send sees to it that the requests of a job are written until its end, then
// waits for the replies.
func (c *conn) send(j *job) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	now := c.clock.now()
	c.turn.sent = 0
	c.turn.pace = pacer{interval: j.interval, next: max(j.start, now), freed: now}
	c.job.Store(j)
	for ; !j.over(c.turn.sent, now); now = c.clock.now() {
		n, wait := c.allowed(j, now)
		var err error
		switch {
		case len(c.turn.out) > 0:
			err = c.flush()
		case n > 0:
			c.fill(j, n, now)
			err = c.flush()
		case wait > 0:
			timer.Reset(wait)
			err = c.wait(j.stop, timer.C)
		default:
			err = c.wait(j.stop, nil)
			c.turn.pace.freed = c.clock.now()
		}
		if err != nil {
			return err
		}
	}
	return c.drain()
}

// allowed returns how many requests may be sent now, or when it is 0 although
// the window has room, how long to wait for the next to be due.
func (c *conn) allowed(j *job, now int64) (n int64, wait time.Duration) {
	n = int64(j.window) - c.outstanding()
	if j.count > 0 {
		n = min(n, j.count-c.turn.sent)
	}
	if n <= 0 {
		return 0, 0
	}
	if due := c.turn.pace.due(now); due < n {
		return due, time.Duration(c.turn.pace.next - now)
	}
	return n, 0
}

// refill sends more of the current job if the reader can do that without
// blocking, and tells whether the sender has nothing to look after.
func (c *conn) refill(now int64) bool {
	if c.turn.raw == nil || !c.turn.TryLock() {
		return false
	}
	defer c.turn.Unlock()
	j := c.job.Load()
	if j == nil || j.interval > 0 || len(c.turn.out) > 0 || j.over(c.turn.sent, now) {
		return false
	}
	n, _ := c.allowed(j, now)
	if n > 0 {
		c.fill(j, n, now)
		c.turn.out = c.turn.raw.write(c.turn.out)
		c.turn.wrote = true
	}
	return len(c.turn.out) == 0
}

// fill puts up to n requests of j into the out buffer and the ring.
func (c *conn) fill(j *job, n, now int64) {
	t := &c.turn
	head := c.head.Load()
	end := head + uint64(n)
	for ; head < end && len(t.out) < batchBytes; head++ {
		if t.xid++; t.xid <= 0 {
			t.xid = 1
		}
		p := &c.ring[head%uint64(len(c.ring))]
		p.xid, p.sent = t.xid, t.pace.take(now)
		start := len(t.out)
		t.out = j.src.next(beginFrame(t.out, t.xid), p)
		endFrame(t.out, start, p.op)
		t.sent++
	}
	c.head.Store(head)
}

func (c *conn) outstanding() int64 { return int64(c.head.Load() - c.tail.Load()) }

// flush writes the out buffer, blocking if the socket is full.
func (c *conn) flush() error {
	_, err := c.nc.Write(c.turn.out)
	c.turn.out = c.turn.out[:0]
	c.turn.wrote = true
	if err != nil {
		return c.cause(fmt.Errorf("%w: write: %w", ErrLost, err))
	}
	if c.turn.pace.interval > 0 {
		c.turn.pace.freed = c.clock.now()
	}
	return nil
}

// drain waits until each request is written and has its reply.
func (c *conn) drain() error {
	for c.outstanding() > 0 {
		err := c.flushRest()
		if err == nil {
			err = c.wait(nil, nil)
		}
		if err != nil {
			return err
		}
	}
	c.job.Store(nil)
	return nil
}

// flushRest writes what the reader could not.
func (c *conn) flushRest() error {
	if len(c.turn.out) == 0 {
		return nil
	}
	return c.flush()
}

// wait gives up the turn until the bell, until at, or until stop. It pings the
// server meanwhile.
func (c *conn) wait(stop <-chan struct{}, at <-chan time.Time) error {
	c.turn.Unlock()
	defer c.turn.Lock()
	select {
	case <-c.bell:
	case <-at:
	case <-stop:
	case <-c.done:
		return c.err
	case <-c.ticker.C:
		return c.ping()
	}
	return nil
}

// ping keeps the session alive if nothing else did since the last tick.
func (c *conn) ping() error {
	c.turn.Lock()
	defer c.turn.Unlock()
	if c.turn.wrote {
		c.turn.wrote = false
		return nil
	}
	start := len(c.turn.out)
	c.turn.out = beginFrame(c.turn.out, jute.XidPing)
	endFrame(c.turn.out, start, jute.OpPing)
	err := c.flush()
	c.turn.wrote = false
	return err
}

// cause returns the error that ended the connection, or err if it has not ended.
func (c *conn) cause(err error) error {
	select {
	case <-c.done:
		return c.err
	default:
		return err
	}
}

// reader takes replies from the socket until the connection ends.
func (c *conn) reader(buf []byte) {
	c.stop(c.read(buf))
}

func (c *conn) read(buf []byte) error {
	var r, w int // buf[r:w] is not handled yet
	patience := c.timeout * 5 / 4
	var renewed int64 // when the read deadline was set
	for {
		if now := c.clock.now(); renewed == 0 || now-renewed > int64(c.timeout/4) {
			renewed = now
			if err := c.nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
				return c.readError(err, w-r)
			}
		}
		n, err := c.nc.Read(buf[w:])
		if err != nil {
			return c.readError(err, w-r)
		}
		w += n
		if r, err = c.handleAll(buf[:w], r); err != nil {
			return err
		}
		buf, r, w = makeRoom(buf, r, w)
	}
}

// readError says what the end of the stream means; unhandled bytes of a frame
// were received.
func (c *conn) readError(err error, unhandled int) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: session %s", ErrSilent, c.id)
	case errors.Is(err, io.EOF) && c.closing.Load() && c.outstanding() == 0:
		return errClosed
	case errors.Is(err, net.ErrClosed):
		return errClosed
	}
	return fmt.Errorf("%w: session %s, %d requests without reply, %d bytes of a frame received: %w",
		ErrLost, c.id, c.outstanding(), unhandled, err)
}

// makeRoom returns a buffer that starts with buf[r:w] and has room after it. It
// grows with what has arrived, not with the length that a frame claims.
func makeRoom(buf []byte, r, w int) ([]byte, int, int) {
	have := w - r
	if have == 0 {
		return buf, 0, 0
	}
	need := frameHeader
	if have >= frameHeader {
		need += int(binary.BigEndian.Uint32(buf[r:]))
	}
	switch {
	case need > len(buf) && have > len(buf)/2:
		grown := make([]byte, min(need, 2*len(buf)))
		return grown, 0, copy(grown, buf[r:w])
	case need > len(buf)-r || len(buf)-w < len(buf)/4:
		return buf, 0, copy(buf, buf[r:w])
	}
	return buf, r, w
}

// handleAll handles the complete frames in b[r:] and returns where the first
// incomplete one starts. Then it lets the sender know.
func (c *conn) handleAll(b []byte, r int) (int, error) {
	now := c.clock.now()
	tail := c.tail.Load()
	head := c.head.Load()
	j := c.job.Load()
	for len(b)-r >= frameHeader {
		n := binary.BigEndian.Uint32(b[r:])
		if n < replyHeader || n > maxReply {
			return r, fmt.Errorf("%w: reply frame of %d bytes", ErrProtocol, n)
		}
		if uint64(len(b)-r-frameHeader) < uint64(n) {
			break
		}
		frame := b[r+frameHeader : r+frameHeader+int(n)]
		r += frameHeader + int(n)
		xid := int32(binary.BigEndian.Uint32(frame))
		if xid == jute.XidPing || xid == jute.XidNotification {
			if err := c.outOfBand(xid, frame, now); err != nil {
				return r, err
			}
			continue
		}
		if tail == head {
			return r, fmt.Errorf("%w: reply with xid %d, but no request is outstanding", ErrProtocol, xid)
		}
		p := &c.ring[tail%uint64(len(c.ring))]
		if p.xid != xid {
			return r, fmt.Errorf("%w: reply with xid %d, want %d", ErrProtocol, xid, p.xid)
		}
		j.reply(p, frame, now)
		tail++
	}
	if tail != c.tail.Load() {
		c.tail.Store(tail)
		if !c.refill(now) {
			c.wake()
		}
	}
	return r, nil
}

// wake makes the sender look, now or as soon as it waits.
func (c *conn) wake() {
	select {
	case c.bell <- struct{}{}:
	default:
	}
}

// outOfBand handles the frames that answer no request of the ring.
func (c *conn) outOfBand(xid int32, frame []byte, now int64) error {
	if xid == jute.XidPing {
		return nil
	}
	if c.notify == nil {
		return fmt.Errorf("%w: watch event, but no watch was set", ErrProtocol)
	}
	return c.notify(now, frame[replyHeader:])
}

// openConn opens a session at addr and starts its goroutines.
func openConn(ctx context.Context, addr string, o connOptions) (*conn, error) {
	began := o.clock.now()
	s, err := open(ctx, addr, hello{timeout: o.timeout})
	if err != nil {
		return nil, err
	}
	c := start(s, o)
	c.began, c.ready = began, o.clock.now()
	return c, nil
}
