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
	"github.com/zkd-project/zkd/server/clients/line/pending"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/feed"
	"github.com/zkd-project/zkd/server/monitor"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/traces"
	"github.com/zkd-project/zkd/server/watch"
)

// conn is one client connection.
//
// A connection has one goroutine, its reader. It cuts requests from the socket, serves
// reads, hands writes to the leader, and writes the replies to reads. It ends while
// the client is idle: see park.go. What the applier puts into the out buffer, answers to
// writes or watch events, is written by the flushers. Only one goroutine writes the socket
// at a time.
type conn struct {
	clients *Clients
	nc      net.Conn // the socket
	stream  net.Conn // what requests and replies pass through: nc, or TLS above it
	kind    portKind
	id      uint64 // origin of its requests, unique over servers and restarts
	opened  time.Time
	frames  *frameReader
	// limited is nil without rules that limit clients. Only the reader stores it.
	limited atomic.Pointer[limited]

	// Owned by the reader.
	sasl           *sasl.Exchange         // nil if the client sent no SASL token
	credentialsEnd time.Duration          // when some of the credentials end; 0 is never
	timeoutMs      int32                  // negotiated; set before the session, by the applier
	current        request                // being handled; a field, since it would be allocated elsewhere
	batch          []replica.Submission   // writes of the frames being handled, not yet handed over
	arena          []byte                 // where request bodies of this batch are copied to
	reads          []sameResults          // answered since the last settle
	traced         []traces.Request       // those of these reads that are sampled
	bytesIn        int64                  // read and not counted in mu.stats
	namespace      monitor.NamespaceCount // of these reads
	started        time.Duration          // when the frames being handled were received
	alone          bool                   // these frames may be answered without the leader
	pinged         bool                   // these frames are one ping
	watched        bool                   // the socket has been parked before

	session     atomic.Int64                     // jute.SessionID; 0 until established
	credentials atomic.Pointer[auth.Credentials] // only the reader stores
	watcher     atomic.Uint64                    // watch.Watcher plus one; 0 while there is none
	pendingLen  atomic.Int32                     // len(mu.pending); only the reader raises it
	done        chan struct{}                    // closed when the connection is being torn down
	closeOnce   sync.Once

	extended     bool                            // the client has asked for extensions; set before the session
	asked        jute.ExtensionRequest           // what it asked for, if extended
	granted      jute.Features                   // set before the session
	seen         jute.Zxid                       // the last zxid that the client had seen when it connected; set before it is answered
	readOnly     bool                            // the server had no leader when the client connected; set before the session
	askedLeader  bool                            // a request of the current batch went to the leader; owned by the reader
	tracked      atomic.Pointer[session.Session] // set before the session
	secure       atomic.Bool                     // with TLS
	local        atomic.Bool                     // the session is local to this server
	reportedLong atomic.Bool                     // see read.reportLong
	touched      atomic.Int64                    // when the client was last heard of, in ms; or arriving
	reported     int64                           // the part of touched that was reported to the leader; owned by the peer loop

	cut   atomic.Bool // it is being ended, as it holds too much that is unread; unread stores it
	dirty bool        // owned by the applier: it has output of the batch
	waits bool        // for a flusher; guarded by flushers.mu

	mu struct {
		sync.Mutex
		out      *outBuffer // nil while empty
		writing  bool       // a goroutine is writing the socket
		ending   bool       // close once out is written; nothing more is appended
		lingers  bool       // with ending: the client may have sent more
		draining bool       // answer what is pending, then end: the server stops, or moves its clients
		exempt   uint64     // number of the drain that leaves it alone; 0 for none
		gone     bool       // torn down
		parked   bool       // there is no reader: see park.go
		mark     int        // where the frame being appended begins
		audited  uint64     // the audit log's last entry about the connection; 0 for none
		feeds    feed.Set
		pending  pending.Queue[request] // requests from the first unanswered write on
		stats    connStats
	}
	drained sync.Cond // on mu: out was written, pending got shorter, or the connection is gone
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
func (st *connStats) answered(req *request, zxid jute.Zxid) {
	st.lastOp, st.lastZxid = req.op, zxid
	if req.xid >= 0 {
		st.lastCxid = int64(req.xid)
	}
}

func newConn(s *Clients, nc net.Conn, kind portKind) *conn {
	c := &conn{
		clients: s,
		nc:      nc,
		stream:  nc,
		kind:    kind,
		id:      uint64(s.ids.Next(nil)),
		opened:  time.Now(),
		frames:  newFrameReader(nc, s.cfg.MaxBuffer),
		done:    make(chan struct{}),
	}
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
	return c.mu.gone || c.mu.ending || c.mu.draining
}

// wantsSession reports whether the connection has a session or has requested one.
func (c *conn) wantsSession() bool { return c.SessionID() != 0 || c.pendingLen.Load() > 0 }

func (c *conn) SessionID() jute.SessionID { return jute.SessionID(c.session.Load()) }

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
		c.clients.logEnd(zap.InfoLevel, "closing connection", err, zap.Stringer("remote", c.nc.RemoteAddr()), zap.Stringer("session", c.SessionID()))
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
	c.askedLeader = false
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
				c.askedLeader, handled = false, 0
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
			if c.clients.slow.is(latency) && r.op == c.current.op {
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
	c.pinged = handled == 1 && c.current.op == jute.OpPing
	c.current = request{} // releases the read buffer
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
func (c *conn) countRead(req *request) {
	if c.clients.traces.Samples(c.SessionID(), req.xid) {
		c.traced = append(c.traced, tracedRequest(c, req, req.code, nil))
	}
	if n := len(c.reads); n > 0 && c.reads[n-1].op == req.op && c.reads[n-1].code == req.code {
		c.reads[n-1].n++
		return
	}
	c.reads = append(c.reads, sameResults{req.op, req.code, 1})
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

// kill ends the connection from any goroutine, without a reply to the client.
func (c *conn) kill() {
	c.closeOnce.Do(func() {
		close(c.done)
		c.nc.Close()
	})
	c.mu.Lock()
	c.mu.gone = true
	c.unparkLocked()
	c.mu.feeds.Close() // the next connection of the session may need their places
	c.dropOutLocked()
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
		for c.mu.pending.Len() > 0 && !c.mu.ending && !c.mu.gone {
			c.drained.Wait()
		}
		c.mu.ending = true
	}
	owed := c.mu.ending && !c.mu.gone
	c.mu.Unlock()
	if !owed {
		return false
	}
	c.nc.SetWriteDeadline(time.Now().Add(lingerTimeout))
	c.flush()
	c.mu.Lock()
	for c.mu.writing && !c.mu.gone {
		c.drained.Wait()
	}
	lingers = c.mu.lingers || c.mu.draining
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

// watcherID returns the connection's handle in the watch table, which is allocated with
// its first watch. The caller holds the tree lock.
func (c *conn) watcherID() watch.Watcher {
	if w := c.watcher.Load(); w != 0 {
		return watch.Watcher(w - 1)
	}
	w := c.clients.conns.AddWatcher(c)
	c.watcher.Store(uint64(w) + 1)
	return w
}

// Origin returns the number of the connection.
func (c *conn) Origin() uint64 { return c.id }

// LastTouch returns what is reported when the connection has ended. A local session's leader
// is not told of it.
func (c *conn) LastTouch() (register.LastTouch, bool) {
	s := c.SessionID()
	return register.LastTouch{Session: s, TimeoutMs: c.timeoutMs, At: c.touched.Load()}, s != 0 && !c.local.Load()
}

// WatchHandle returns the handle in the watch table.
func (c *conn) WatchHandle() (watch.Watcher, bool) {
	w := c.watcher.Load()
	return watch.Watcher(w - 1), w != 0
}
