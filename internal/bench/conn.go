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
type conn struct {
	session
	began  int64 // clock time when connecting began
	ready  int64 // and when the session was there
	clock  clock
	notify func(now int64, event []byte) error // reader: gets each watch event

	jobs   chan *job
	job    atomic.Pointer[job] // set by the sender before its first request
	ticker *time.Ticker        // time to ping
	out    []byte              // sender: requests not written yet
	xid    int32               // sender: last one used
	wrote  bool                // sender: something was written since the last tick

	// ring holds the requests without replies, [tail, head). The sender alone
	// advances head, the reader alone advances tail.
	// Invariant: head - tail <= len(ring).
	ring []pending
	head atomic.Uint64
	tail atomic.Uint64
	bell chan struct{} // rung by the reader after it advanced tail

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

// send writes the requests of a job until its end, then waits for the replies.
func (c *conn) send(j *job) error {
	c.job.Store(j)
	timer := time.NewTimer(0)
	defer timer.Stop()
	now := c.clock.now()
	p := pacer{interval: j.interval, next: max(j.start, now), freed: now}
	for sent := int64(0); !j.over(sent, now); now = c.clock.now() {
		free := int64(j.window) - c.outstanding()
		if j.count > 0 {
			free = min(free, j.count-sent)
		}
		due := p.due(now)
		var err error
		switch {
		case free <= 0:
			err = c.wait(j.stop, nil)
			p.freed = c.clock.now()
		case due <= 0:
			timer.Reset(time.Duration(p.next - now))
			err = c.wait(j.stop, timer.C)
		default:
			sent += c.fill(j, &p, min(free, due), now)
			err = c.flush()
			if p.interval > 0 {
				p.freed = c.clock.now()
			}
		}
		if err != nil {
			return err
		}
	}
	return c.drain()
}

// fill puts up to n requests of j into the out buffer and the ring.
func (c *conn) fill(j *job, p *pacer, n, now int64) (filled int64) {
	head := c.head.Load()
	for filled < n && len(c.out) < batchBytes {
		e := &c.ring[(head+uint64(filled))%uint64(len(c.ring))]
		c.xid++
		if c.xid <= 0 {
			c.xid = 1
		}
		e.xid, e.sent = c.xid, p.take(now)
		start := len(c.out)
		c.out = j.src.next(beginFrame(c.out, c.xid), e)
		endFrame(c.out, start, e.op)
		filled++
	}
	c.head.Store(head + uint64(filled))
	return filled
}

func (c *conn) outstanding() int64 { return int64(c.head.Load() - c.tail.Load()) }

// flush writes the out buffer.
func (c *conn) flush() error {
	_, err := c.nc.Write(c.out)
	c.out = c.out[:0]
	c.wrote = true
	if err != nil {
		return c.cause(fmt.Errorf("%w: write: %w", ErrLost, err))
	}
	return nil
}

// drain waits until each request has its reply.
func (c *conn) drain() error {
	for c.outstanding() > 0 {
		if err := c.wait(nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// wait blocks until the reader has advanced tail, until at, or until stop. It
// pings the server meanwhile.
func (c *conn) wait(stop <-chan struct{}, at <-chan time.Time) error {
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
	if c.wrote {
		c.wrote = false
		return nil
	}
	c.out = beginFrame(c.out, jute.XidPing)
	endFrame(c.out, len(c.out)-frameHeader-requestHeader, jute.OpPing)
	err := c.flush()
	c.wrote = false
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
				return fmt.Errorf("%w: %w", ErrLost, err)
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

// makeRoom moves buf[r:w] to the front of a buffer that has room for the rest
// of the frame that starts there.
func makeRoom(buf []byte, r, w int) ([]byte, int, int) {
	need := frameHeader
	if w-r >= frameHeader {
		need += int(binary.BigEndian.Uint32(buf[r:]))
	}
	switch {
	case r == w:
		return buf, 0, 0
	case need > len(buf):
		grown := make([]byte, need+need/4)
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
		select {
		case c.bell <- struct{}{}:
		default:
		}
	}
	return r, nil
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
	s, err := open(ctx, addr, o.timeout)
	if err != nil {
		return nil, err
	}
	c := start(s, o)
	c.began, c.ready = began, o.clock.now()
	return c, nil
}
