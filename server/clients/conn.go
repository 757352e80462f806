package clients

import (
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/frames"
	"github.com/zkd-project/zkd/internal/mux"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/limits"
	"github.com/zkd-project/zkd/server/show"
)

// conn is one client connection: a line (package line), and the parts that bring its requests and take its output.
//
// A connection has one goroutine, its reader. It cuts requests from the socket, serves
// reads, hands writes to the leader, and writes the replies to reads. It ends while
// the client is idle: see park.go. What the applier puts into the line's buffer, answers to
// writes or watch events, is written by the flushers. Each part says who may use it.
type conn struct {
	shared *shared
	kind   portKind
	door   string // by which a guest came; "" for the ports
	opened time.Time
	group  string // with which connections of one address are counted

	wordsOnly bool // it has no place of a client: see shared.admitOperator

	takes      register.Kind // Carried: by the connection of an edge, see carry.go
	carriedFor string        // the client's address, as the edge tells it
	carrier    *mux.Carrier  // of an edge's own connection; guarded by line

	line     guardedLine
	socket   socket
	identity identity
	limits   limiter
	out      writer

	stats  connStats // guarded by line
	crowd  *crowd    // nil before the handshake; guarded by line, and only the reader changes it
	parked bool      // there is no reader: see park.go; guarded by line

	// Owned by the reader.
	frames    *frames.Reader
	login     login
	weighed   weighed // that crowd follows from
	batch     batch
	tally     tally
	current   line.Request  // being handled; a field, since it would be allocated elsewhere
	outcome   line.Read     // of the read being served; a field for the same reason
	decided   chan struct{} // closed when the line's own request is decided
	batchAt   time.Duration // when the frames being handled were received
	bytesIn   int64         // read and not counted in stats
	onlyPing  bool          // these frames are one ping
	wasParked bool          // the socket has been in the set of parked ones

	reportedLong bool // a long reply was logged: see lineServer.LongReply; guarded by line
}

func newConn(s *shared, nc net.Conn, kind portKind) *conn {
	c := &conn{shared: s, kind: kind, opened: time.Now(), frames: frames.New(nc, s.cfg.MaxBuffer, "jute.maxbuffer")}
	c.line.Begin(s.lines, (*host)(c), uint64(s.sessions.ids.Next(nil)))
	c.line.changed.L = &c.line.Mutex
	c.socket.init(nc, s.stopping)
	c.identity.init(nc)
	c.group = limits.Network(c.identity.ip())
	c.limits.rules, c.limits.line, c.limits.identity = &s.rules, &c.line, &c.identity
	c.out.shared, c.out.line, c.out.socket, c.out.limits = &s.writers, &c.line, &c.socket, &c.limits
	c.login.proofs, c.login.identity, c.login.line = s.proofs, &c.identity, &c.line
	c.batch.backend, c.tally.shared = s.backend, &s.tallies
	c.stats.lastCxid = -1
	return c
}

// author returns the connection as the author of an operation, with the identities that it had then.
func (c *conn) author(ids []jute.ID) author {
	return author{c.line.SessionID(), c.identity.ip(), ids, c.door, c.identity.edge()}
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
		c.shared.refusals.note(zap.InfoLevel, "closing connection", err, zap.Stringer("remote", c.socket.remote()), zap.Stringer("session", c.line.SessionID()))
	}
}

// run handles requests until the connection ends, and returns the reason.
func (c *conn) run() error {
	if err := c.limits.awaitOpening(c.socket.done); err != nil {
		return err
	}
	if err := c.handshake(); err == errCarries {
		return c.carry()
	} else if err != nil {
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
		n, err := c.frames.Fill()
		c.shared.metrics.BytesReceived.Add(int64(n))
		c.bytesIn += int64(n)
		if err != nil {
			return err
		}
		if err := c.handleBuffered(); err != nil {
			return err
		}
		if c.onlyPing && c.park() {
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
		frame, ok, err := c.frames.Next()
		if !ok || err != nil {
			return err
		}
		wait, err := c.limits.charge(frame)
		if err != nil {
			return err
		}
		if wait > 0 {
			c.finishBatch(handled)
			handled = 0
			if err := c.limits.pause(wait, c.socket.done); err != nil {
				return err
			}
		}
		if handled++; handled == 1 {
			c.beginBatch()
		}
		if err := c.handle(frame); err != nil {
			return err
		}
		if err := c.throttle(); err != nil {
			return err
		}
	}
}

// beginBatch records that the client was heard of, before the first request of a batch is
// handled.
func (c *conn) beginBatch() {
	last := c.line.Session.Arriving()
	c.batchAt = c.shared.now()
	c.line.Arrived(last, c.batchAt, c.shared.backend.AnswersUntil())
	c.joinCrowd()
}

// weighed is what the crowd of a connection follows from.
type weighed struct {
	creds   *auth.Credentials
	weights *limits.Weights
}

// joinCrowd makes the connection one of those that have its subject.
func (c *conn) joinCrowd() {
	now := weighed{c.identity.credentials.Load(), c.shared.rules.weights.Load()}
	if c.crowd != nil && now == c.weighed {
		return
	}
	c.weighed = now
	subject, weight := now.weights.Of(now.creds.IDs())
	t, was := c.shared.throttler, c.crowd
	next := t.join(crowdKey{subject, int64(weight)})
	c.line.Lock()
	if was != nil && c.line.Waiting.Len() > 0 {
		t.hold(was, -1)
		t.hold(next, 1)
	}
	c.crowd = next
	c.line.Unlock()
	t.quit(was)
}

// finishBatch ends a batch of requests: it hands the writes to the leader in one piece, writes
// the buffer to the socket, and updates the counters with one reading of the clock.
func (c *conn) finishBatch(handled int) {
	if handled == 0 {
		return
	}
	c.batch.submit()
	c.shared.metrics.PacketsReceived.Add(int64(handled))
	c.line.Lock()
	c.stats.received += int64(handled)
	c.stats.bytesIn += c.bytesIn
	c.bytesIn = 0
	if len(c.tally.reads) > 0 {
		c.stats.lastResponse = c.shared.now()
		c.tally.settleLocked(&c.stats, c.batchAt, c.line.SessionID(), c.socket.remote(), &c.current)
	}
	c.line.Unlock()
	c.onlyPing = handled == 1 && c.current.Op == jute.OpPing
	c.current = line.Request{} // releases the read buffer
	c.tally.namespace.Flush()
	c.out.flush()
}

// park parks the connection, and reports whether it did: then the reader has to end, and
// touches nothing of the connection any more. The caller is the reader.
func (c *conn) park() bool {
	await := c.shared.parking.awaits(&c.socket)
	if await == nil {
		return false
	}
	c.line.Lock()
	defer c.line.Unlock()
	if c.line.endsLocked() || c.line.Waiting.Len() > 0 || !c.frames.Release() || !await(c.line.Origin(), c.wasParked) {
		return false
	}
	c.wasParked = true
	c.batch.rest()
	c.tally.rest()
	c.line.Waiting.Rest()
	c.shared.running.Add(1)
	c.parked = true
	return true
}

// unparkLocked starts the reader if the connection is parked.
func (c *conn) unparkLocked() {
	if c.parked {
		c.parked = false
		c.shared.running.Go(c.resume)
		c.shared.running.Done()
	}
}

// interruptLocked makes the reader look at once whether the connection ends.
func (c *conn) interruptLocked() {
	if c.carrier != nil {
		c.carrier.Quit() // those that it carries are ended one by one
		return
	}
	if c.line.draining {
		c.socket.hurry()
	}
	c.socket.interrupt()
	c.unparkLocked()
	c.limits.wakeLocked()
}

// kill ends the connection from any goroutine, without a reply to the client.
func (c *conn) kill() {
	c.socket.close()
	c.line.Lock()
	c.unparkLocked()
	c.out.release(c.line.Kill())
	c.line.Unlock()
	c.line.changed.Broadcast()
	c.shared.throttler.relax() // its reader may be paused
}

// tearDown runs when the reader ends.
func (c *conn) tearDown() {
	lingers := c.finish()
	c.forget() // the connection no longer counts
	if lingers {
		c.socket.linger()
	}
	c.kill()
}

// finish sends a client the remaining replies: those to its requests when the server
// stops, or the last reply of a connection that is ending. It reports whether to linger.
func (c *conn) finish() (lingers bool) {
	c.line.Lock()
	if c.line.draining {
		for c.line.Waiting.Len() > 0 && !c.line.Outbox.Ends() {
			c.line.changed.Wait()
		}
		c.line.Outbox.End(false)
	}
	owed := !c.line.Outbox.Gone() && c.line.Outbox.Ends()
	c.line.Unlock()
	if !owed {
		return false
	}
	c.out.finish()
	c.line.Lock()
	lingers = c.line.Outbox.Lingers() || c.line.draining
	c.line.Unlock()
	c.socket.endStream()
	return lingers
}

// forget removes an ended connection from all registers. After this hold of the tree's
// lock no watch is added for it: its reader has ended, and the applier, which needs that lock
// to serve its queued reads, finds none. So its watches, which may be very many, are removed
// without the lock. Its handle is free only when they are gone.
func (c *conn) forget() {
	s := c.shared
	c.limits.end()
	use := c.use()
	s.ended.add(&use)
	s.looks.drop(c)
	s.state.RLock()
	c.line.Lock()
	if a := s.audit.Load(); !a.off() {
		a.keepLocked(&c.line.Line, c.author(nil))
	}
	queued := c.line.Waiting.All()
	for i := range queued {
		s.large.bytes.Add(-queued[i].Large)
		s.throttler.leave(c.crowd, queued[i].Size(), i == len(queued)-1)
	}
	c.out.release(c.line.Forget())
	c.line.Unlock()
	s.lines.Views.DropLine(&c.line.Line)
	s.feeder.remove(&c.out)
	s.state.RUnlock()
	if w, ok := c.line.WatchHandle(); ok {
		s.state.Watches.Drop(w)
		s.metrics.DeadWatchers.Add(1)
	}
	s.register.Remove(&c.line.Line, c.group, c.takes)
	s.throttler.quit(c.crowd)
	s.throttler.relax()
}

// use returns what the connection did. Its watches are not counted.
func (c *conn) use() show.ClientUse {
	u := show.ClientUse{Address: c.identity.ip(), Port: int(c.socket.remotePort().Port()), Session: int64(c.line.SessionID()), Connections: 1,
		Identity: c.identity.name()}
	c.line.Lock()
	defer c.line.Unlock()
	st := &c.stats
	u.Requests, u.Replies, u.BytesIn, u.BytesOut = st.received, st.sent, st.bytesIn, c.out.taken
	return u
}
