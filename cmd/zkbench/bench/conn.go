package bench

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
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

// conn is a session with its goroutines. It runs one job at a time, and pings the server when
// there is nothing else to send.
//
// Only the holder of the turn may send. The sender takes the turn to start a job, to pace
// one, to ping, and to write what the socket did not take at once. While a job runs as fast
// as its window allows, the reader takes the turn when replies have freed slots, and sends
// the next requests itself: waking the sender for that would cost more than the requests. The
// reader never blocks for it, neither on the turn nor on the socket, because two full sockets
// could wait for each other.
type conn struct {
	session
	began  int64 // clock time when connecting began
	ready  int64 // and when the session was there
	clock  clock
	notify func(now int64, event []byte) error // reader: gets each watch event
	count  *atomic.Int64                       // reader: adds the replies; may be nil
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

	// ring holds the requests without replies, [tail, head). The holder of the turn advances
	// head, the reader advances tail. Invariant: head - tail <= len(ring).
	ring []pending
	head atomic.Uint64
	tail atomic.Uint64
	job  atomic.Pointer[job] // set before its first request is in the ring
	bell chan struct{}       // rung by the reader when the sender must act

	wg      sync.WaitGroup
	closing atomic.Bool
	done    chan struct{} // closed when err is set
	fail    sync.Once
	err     error
}

// connOptions configures a connection.
type connOptions struct {
	timeout  time.Duration // of the session, wished
	window   int           // largest window of its jobs, at least 1
	clock    clock
	notify   func(now int64, event []byte) error // must not block; nil: there are no watches
	security Security
	replies  *atomic.Int64 // counts the replies of all connections; may be nil
}

// start runs the goroutines of a session.
func start(s session, o connOptions) *conn {
	c := &conn{
		session: s,
		clock:   o.clock,
		notify:  o.notify,
		count:   o.replies,
		jobs:    make(chan *job),
		ticker:  time.NewTicker(s.timeout / 3),
		ring:    make([]pending, 1<<bits.Len(uint(o.window))),
		bell:    make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
	c.turn.raw = newRawWriter(s.nc)
	c.wg.Go(c.sender)
	c.wg.Go(c.reader)
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

// do runs a job until the replies of all its requests have come. If the connection ends
// before, it returns the reason.
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

// openConn opens a session at addr and starts its goroutines.
func openConn(ctx context.Context, addr string, o connOptions) (*conn, error) {
	began := o.clock.now()
	s, err := open(ctx, addr, hello{timeout: o.timeout, security: o.security})
	if err != nil {
		return nil, err
	}
	c := start(s, o)
	c.began, c.ready = began, o.clock.now()
	return c, nil
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
