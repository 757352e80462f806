package clients

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/fourletter"
	"github.com/zkd-project/zkd/internal/tlsconn"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/auth/sasl"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/traces"
)

// conn is one client connection: the socket of a line (package line), which has the requests that wait and
// what is sent.
//
// A connection has one goroutine, its reader. It cuts requests from the socket, serves
// reads, hands writes to the leader, and writes the replies to reads. It ends while
// the client is idle: see park.go. What the applier puts into the line's buffer, answers to
// writes or watch events, is written by the flushers. Only one goroutine writes the socket
// at a time.
type conn struct {
	clients *Clients
	line    line.Line // mu is its lock
	nc      net.Conn  // the socket
	stream  net.Conn  // what requests and replies pass through: nc, or TLS above it
	kind    portKind
	opened  time.Time

	readerState // owned by the reader

	// limited is nil without rules that limit clients. Only the reader stores it.
	limited      atomic.Pointer[limited]
	credentials  atomic.Pointer[auth.Credentials] // only the reader stores
	secure       atomic.Bool                      // with TLS
	reportedLong atomic.Bool                      // see Clients.LongReply
	done         chan struct{}                    // closed when the connection is being torn down
	closeOnce    sync.Once

	dirty bool // owned by the applier: it has output of the batch
	waits bool // for a flusher; guarded by flushers.mu

	mu struct {
		sync.Mutex
		writing  bool   // a goroutine is writing the socket
		draining bool   // answer what is pending, then end: the server stops, or moves its clients
		exempt   uint64 // number of the drain that leaves it alone; 0 for none
		parked   bool   // there is no reader: see park.go
		audited  uint64 // the audit log's last entry about the connection; 0 for none
		stats    connStats
	}
	drained sync.Cond // on mu: the buffer was written, the queue got shorter, or the connection is gone
}

// readerState is what the reader of a connection owns.
type readerState struct {
	frames         *frameReader
	sasl           *sasl.Exchange         // nil if the client sent no SASL token
	credentialsEnd time.Duration          // when some of the credentials end; 0 is never
	current        line.Request           // being handled; a field, since it would be allocated elsewhere
	outcome        line.Read              // the outcome of current
	decided        chan struct{}          // closed when the line's own request is decided
	batch          []replica.Submission   // writes of the frames being handled, not yet handed over
	arena          []byte                 // where request bodies of this batch are copied to
	reads          []sameResults          // answered since the last settle
	traced         []traces.Request       // those of these reads that are sampled
	bytesIn        int64                  // read and not counted in mu.stats
	namespace      monitor.NamespaceCount // of these reads
	started        time.Duration          // when the frames being handled were received
	pinged         bool                   // these frames are one ping
	watched        bool                   // the socket has been parked before
}

// connStats are the values of a connection that cons, stat and the latency lines show.
type connStats struct {
	received, sent int64
	bytesIn        int64
	bytesOut       int64
	lastOp         jute.OpCode
	lastCxid       int64 // negative: none
	lastZxid       jute.Zxid
	lastResponse   time.Duration
	lastLatency    time.Duration
	minLatency     time.Duration
	maxLatency     time.Duration
	totalLatency   time.Duration
	count          int64
}

func (st *connStats) observe(latency time.Duration, n int64) {
	if st.count == 0 || latency < st.minLatency {
		st.minLatency = latency
	}
	st.maxLatency = max(st.maxLatency, latency)
	st.lastLatency = latency
	st.totalLatency += latency * time.Duration(n)
	st.count += n
}

// answered records the reply to a request.
func (st *connStats) answered(req *line.Request, zxid jute.Zxid) {
	st.lastOp, st.lastZxid = req.Op, zxid
	if req.Xid >= 0 {
		st.lastCxid = int64(req.Xid)
	}
}

func newConn(s *Clients, nc net.Conn, kind portKind) *conn {
	c := &conn{
		clients:     s,
		nc:          nc,
		stream:      nc,
		kind:        kind,
		opened:      time.Now(),
		readerState: readerState{frames: newFrameReader(nc, s.cfg.MaxBuffer)},
		done:        make(chan struct{}),
	}
	c.line.Begin(s.lines, (*host)(c), uint64(s.ids.Next(nil)))
	c.drained.L = &c.mu
	c.mu.stats.lastCxid = -1
	c.credentials.Store(auth.NewCredentials(jute.ID{Scheme: "ip", ID: remoteIP(nc)}))
	return c
}

// remoteIP returns the address of the client as Apache's server spells it, which is the id of the
// scheme ip.
func remoteIP(nc net.Conn) string {
	host, _, err := net.SplitHostPort(nc.RemoteAddr().String())
	if err != nil {
		return nc.RemoteAddr().String()
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return fourletter.HostAddress(ip)
	}
	return host
}

// isOver reports whether further requests of the connection are ignored.
func (c *conn) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.line.Ends() || c.mu.draining
}

// serve runs the connection until it is idle or ends. It is the reader.
func (c *conn) serve() { c.leave(c.run()) }

// resume is serve for a connection that was idle.
func (c *conn) resume() { c.leave(c.read()) }

// leave ends the reader, and also the connection unless it is parked.
func (c *conn) leave(err error) {
	if err == errParked {
		return
	}
	defer c.tearDown()
	if !endOfConnection(err) {
		c.clients.logEnd(zap.InfoLevel, "closing connection", err, zap.Stringer("remote", c.nc.RemoteAddr()), zap.Stringer("session", c.line.SessionID()))
	}
}

// endOfConnection reports whether err is a usual end, which is not worth a line in the
// log.
func endOfConnection(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, errHangUp) || isReset(err)
}

// errHangUp ends a connection that is complete: its last bytes are written or on their
// way.
var errHangUp = errors.New("connection is done")

// run handles requests until the connection ends, and returns the reason.
func (c *conn) run() error {
	if err := c.handshake(); err != nil {
		return err
	}
	if err := c.handleBuffered(); err != nil {
		return err
	}
	return c.read()
}

// read is run after the handshake. It also returns errParked.
func (c *conn) read() error {
	for {
		n, err := c.frames.fill()
		c.clients.metrics.BytesReceived.Add(int64(n))
		c.bytesIn += int64(n)
		if err != nil {
			return err
		}
		if err := c.handleBuffered(); err != nil {
			return err
		}
		if c.pinged && c.park() {
			return errParked
		}
	}
}

// handleBuffered handles all requests that have been read already, then hands over and
// writes out the results.
func (c *conn) handleBuffered() error {
	handled := 0
	defer func() {
		c.finishBatch(handled)
	}()
	for {
		frame, ok, err := c.frames.next()
		if !ok || err != nil {
			return err
		}
		if l := c.currentLimits(); l != nil {
			wait, err := l.charge(c, frame)
			if err != nil {
				return err
			}
			if wait > 0 {
				c.finishBatch(handled)
				handled = 0
				if err := c.pause(wait); err != nil {
					return err
				}
			}
		}
		if handled++; handled == 1 {
			c.recordTouch()
		}
		if err := c.handle(frame); err != nil {
			return err
		}
		if err := c.throttle(); err != nil {
			return err
		}
	}
}

// finishBatch ends a batch of requests: it hands the writes to the leader in one piece, writes
// the out buffer to the socket, and updates the counters with one reading of the clock.
func (c *conn) finishBatch(handled int) {
	if handled == 0 {
		return
	}
	c.submitBatch()
	c.clients.metrics.PacketsReceived.Add(int64(handled))
	c.mu.Lock()
	c.mu.stats.received += int64(handled)
	c.mu.stats.bytesIn += c.bytesIn
	c.bytesIn = 0
	if len(c.reads) > 0 {
		c.mu.stats.lastResponse = c.clients.now()
		latency := c.mu.stats.lastResponse - c.started
		for _, r := range c.reads {
			c.mu.stats.observe(latency, r.n)
			c.clients.metrics.Requests.Observe(r.op, r.code, latency, r.n)
			if c.clients.slow.is(latency) && r.op == c.current.Op {
				c.clients.slow.note(c, &c.current, slowRequest{code: r.code, took: latency, reads: r.n})
			}
		}
		c.reads = c.reads[:0]
		for _, r := range c.traced {
			r.Applied = c.mu.stats.lastResponse
			c.clients.traces.Add(r)
		}
		clear(c.traced)
		c.traced = c.traced[:0]
	}
	c.mu.Unlock()
	c.pinged = handled == 1 && c.current.Op == jute.OpPing
	c.current = line.Request{} // releases the read buffer
	c.namespace.Flush()
	c.flush()
}

// sameResults are requests with the same result, one after the other.
type sameResults struct {
	op   jute.OpCode
	code jute.Code
	n    int64
}

// countRead counts a read that was answered.
func (c *conn) countRead(req *line.Request) {
	if c.clients.traces.Samples(c.line.SessionID(), req.Xid) {
		c.traced = append(c.traced, tracedRequest(c, req, req.Code, nil))
	}
	if n := len(c.reads); n > 0 && c.reads[n-1].op == req.Op && c.reads[n-1].code == req.Code {
		c.reads[n-1].n++
		return
	}
	c.reads = append(c.reads, sameResults{req.Op, req.Code, 1})
}

// submitBatch hands the batch's writes to the leader.
func (c *conn) submitBatch() {
	c.clients.backend.Submit(c.batch...)
	clear(c.batch)
	c.batch = c.batch[:0]
	c.arena = nil
}

// copyBody returns a copy of body that lives as long as the request. Bodies of one batch
// share an allocation.
func (c *conn) copyBody(body []byte) []byte {
	if cap(c.arena)-len(c.arena) < len(body) {
		// The other bytes read are likely to be kept too.
		c.arena = make([]byte, 0, max(len(body), min(c.frames.w-c.frames.r+len(body), busyReadBuffer)))
	}
	n := len(c.arena)
	c.arena = append(c.arena, body...)
	return c.arena[n:len(c.arena):len(c.arena)]
}

// recordTouch records that the client was heard of, before the first request of a batch is
// handled.
func (c *conn) recordTouch() {
	last := c.line.Arriving()
	c.started = c.clients.now()
	c.line.Arrived(last, c.started, c.clients.backend.AnswersUntil())
}

// kill ends the connection from any goroutine, without a reply to the client.
func (c *conn) kill() {
	c.closeOnce.Do(func() {
		close(c.done)
		c.nc.Close()
	})
	c.mu.Lock()
	c.unparkLocked()
	c.releaseOut(c.line.Kill())
	c.mu.Unlock()
	c.drained.Broadcast()
	c.clients.throttler.relax() // its reader may be paused
}

// drain ends the connection once its pending requests are answered. A client that does not
// read is not waited for.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.draining = true
	c.interruptLocked()
	c.nc.SetWriteDeadline(time.Now().Add(lingerTimeout))
}

// writeSoon gives what is written while the server stops its time, from now on: answers may
// come later than the stop.
func (c *conn) writeSoon() {
	select {
	case <-c.clients.refusing:
	default:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.draining {
		c.nc.SetWriteDeadline(time.Now().Add(lingerTimeout))
	}
}

// readWithin sets the deadline of the handshake, unless the server is already stopping.
func (c *conn) readWithin(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.draining {
		c.nc.SetReadDeadline(time.Now().Add(d))
	}
}

// readWithoutDeadline removes the deadline of the handshake, unless the server is already
// stopping.
func (c *conn) readWithoutDeadline() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.draining {
		c.nc.SetReadDeadline(time.Time{})
	}
}

// writeWithoutDeadline removes the deadline of a TLS handshake, unless the server is already
// stopping.
func (c *conn) writeWithoutDeadline() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.draining {
		c.nc.SetWriteDeadline(time.Time{})
	}
}

// tearDown runs when the reader ends.
func (c *conn) tearDown() {
	lingers := c.finish()
	c.clients.forget(c) // the connection no longer counts
	if lingers {
		c.linger()
	}
	c.kill()
}

// lingerTimeout bounds the time in which a client may read its last bytes.
const lingerTimeout = time.Second

// finish sends a client the remaining replies: those to its requests when the server
// stops, or the last reply of a connection that is ending. It reports whether to linger.
func (c *conn) finish() (lingers bool) {
	c.mu.Lock()
	if c.mu.draining {
		for c.line.Waiting() > 0 && !c.line.Ends() {
			c.drained.Wait()
		}
		c.line.End(false)
	}
	owed := !c.line.Gone() && c.line.Ends()
	c.mu.Unlock()
	if !owed {
		return false
	}
	c.nc.SetWriteDeadline(time.Now().Add(lingerTimeout))
	c.flush()
	c.mu.Lock()
	for c.mu.writing && !c.line.Gone() {
		c.drained.Wait()
	}
	lingers = c.line.Lingers() || c.mu.draining
	c.mu.Unlock()
	if t, ok := c.stream.(*tlsconn.Conn); ok {
		t.CloseWrite() // tells the client that no bytes are missing
	}
	return lingers
}

// linger closes the sending side and discards further input from the client: a close with
// unread bytes would reset the connection, and the client would lose the last reply.
func (c *conn) linger() {
	tcp, ok := c.nc.(*net.TCPConn)
	if !ok {
		return
	}
	tcp.CloseWrite()
	tcp.SetReadDeadline(time.Now().Add(lingerTimeout))
	io.Copy(io.Discard, tcp)
}

// ip returns the client's address without the port.
func (c *conn) ip() string { return c.credentials.Load().IDs()[0].ID }
