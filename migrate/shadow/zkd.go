package shadow

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// begin begins the session of a connection on zkd, after Apache has answered.
func (e *Engine) begin(c *conn) {
	if c.response.SessionID == 0 {
		c.zkdState = zkdClosed // the session is over, and so is the connection
		return
	}
	s := e.sessions[c.response.SessionID]
	if s == nil {
		s = &session{id: c.response.SessionID, ephemerals: map[string]bool{}}
		if c.connect.SessionID != 0 { // from before the shadow: zkd may have a copy
			s.zkd, s.password = c.connect.SessionID, c.connect.Password
		}
		e.sessions[s.id] = s
	}
	s.timeout = time.Duration(c.response.TimeoutMs) * time.Millisecond
	if s.conn != nil && !s.conn.done {
		c.after, s.conn.next = s.conn, c
	}
	s.conn, s.gone, c.session = c, 0, s
	if c.after == nil {
		e.dial(c)
	}
}

func (e *Engine) dial(c *conn) {
	r := *c.connect
	r.ProtocolVersion, r.LastZxidSeen = 0, c.session.lastZxid
	r.SessionID, r.Password = c.session.zkd, c.session.password
	if r.SessionID == 0 {
		r.Password = make([]byte, jute.PasswordLen)
	}
	c.zkdState, c.dialed = zkdDialing, e.now
	e.do(Dial, c, r.Append(nil))
}

func (e *Engine) do(kind ActionKind, c *conn, frame []byte) {
	e.actions = append(e.actions, Action{kind, c.id, frame})
}

// finish closes the connection to zkd when nothing is left to do on it.
func (e *Engine) finish(c *conn) {
	if c.done || !c.ended || !c.stopped && !c.passed && (c.queue.Len()+c.sent.Len()+e.order.of(c) > 0 || c.zkdState == zkdDialing || c.after != nil) {
		return
	}
	c.done = true
	delete(e.conns, c.id)
	e.forgetLate(c)
	if c.zkdState == zkdUp || c.zkdState == zkdDialing {
		e.do(Close, c, nil)
		c.zkdState = zkdClosed
	}
	if s := c.session; s != nil && s.conn == c && e.sessions[s.id] == s {
		e.leaveEphemerals(s)
	}
	e.succeed(c)
}

// leaveEphemerals leaves open what a session's znodes are: it will end on both sides, but not
// at one time.
func (e *Engine) leaveEphemerals(s *session) {
	for path := range s.ephemerals {
		e.leaveComing(path, e.now+2*s.timeout+e.cfg.Grace)
	}
}

// succeed begins the connection that waited for this one.
func (e *Engine) succeed(c *conn) {
	next := c.next
	if next == nil {
		return
	}
	c.next, next.after = nil, nil
	for path := range next.session.ephemerals {
		delete(e.open, path)
		delete(e.openLists, jute.Parent(path))
	}
	if !next.stopped {
		e.dial(next)
	}
}

// stop ends the comparison of a connection.
func (e *Engine) stop(c *conn, reason string) {
	if c.stopped || c.passed {
		return
	}
	c.stopped = true
	e.sum.Stopped[reason]++
	if c.zkdState == zkdUp || c.zkdState == zkdDialing {
		e.do(Close, c, nil)
		c.zkdState = zkdClosed
	}
	for _, o := range slices.Concat(c.asked.All(), c.queue.All(), c.sent.All(), e.order.remove(c)) {
		e.missed(c, o.request)
		e.resolve(o)
	}
	c.asked.Clear()
	c.queue.Clear()
	c.sent.Clear()
	c.held = 0
	c.fromApache, c.fromZkd = Splitter{}, Splitter{}
	clear(c.events)
	e.forgetLate(c)
	e.succeed(c)
	e.finish(c)
}

// ZkdLost is about the end of the connection to zkd, or of the attempt to make one. If zkd is
// not serving others either, the end says nothing about this connection.
func (e *Engine) ZkdLost(now time.Duration, id ConnID, serving bool, reason string) {
	e.now = now
	c := e.conns[id]
	if c == nil || c.stopped || c.zkdState == zkdClosed || c.zkdState == zkdNone {
		return
	}
	c.zkdState = zkdClosed
	if c.closing || c.ended && c.sent.Len() == 0 && c.queue.Len() == 0 && e.order.of(c) == 0 {
		e.pump(c)
		e.finish(c)
		return
	}
	if serving {
		r := Report{Class: Difference, Op: "close", Apache: "open", Zkd: reason, What: []string{"connection: open, zkd " + reason}}
		if c.sent.Len() > 0 {
			o := *c.sent.Front()
			r.Request, r.Path, r.Apache = o.String(), o.path, decodeAnswer(o.op, o.answer).String()
			if o.late || e.isOpen(o.reads, o.writes) {
				r.Class = Order
			}
		}
		e.report(c, r)
		reason = "zkd closed the connection"
	}
	e.stop(c, reason)
}

// FromZkd takes bytes of zkd's. It keeps p.
func (e *Engine) FromZkd(now time.Duration, id ConnID, p []byte) {
	e.now = now
	c := e.conns[id]
	if c == nil || c.stopped || c.zkdState == zkdClosed || c.zkdState == zkdNone {
		return
	}
	c.fromZkd.Write(p)
	for !c.stopped && c.zkdState != zkdClosed {
		frame, ok, err := c.fromZkd.Next()
		if err != nil {
			e.report(c, Report{Class: Difference, Op: "close", What: []string{"bytes that are no frame"}})
			e.stop(c, "zkd sent bytes that are no frame")
			break
		}
		if !ok {
			break
		}
		e.fromZkd(c, frame)
	}
	e.advance()
	e.finish(c)
}

func (e *Engine) fromZkd(c *conn, frame []byte) {
	d := jute.NewDecoder(frame)
	if c.zkdState == zkdDialing {
		e.connected(c, &d)
		return
	}
	var h jute.ReplyHeader
	if h.Decode(&d); d.Err() != nil {
		e.report(c, Report{Class: Difference, Op: "close", What: []string{"a frame without a header"}})
		e.stop(c, "zkd sent a frame without a header")
		return
	}
	if h.Zxid > 0 && h.Zxid < c.zkdZxid {
		what := fmt.Sprintf("zxid: not less than the last one, zkd %v after %v", h.Zxid, c.zkdZxid)
		e.report(c, Report{Class: Difference, Op: "order", What: []string{what}, Zkd: h.Zxid.String()})
	}
	c.zkdZxid = max(c.zkdZxid, h.Zxid)
	c.session.lastZxid = max(c.session.lastZxid, h.Zxid)
	if h.Xid == jute.XidNotification {
		e.event(c, zkdSide, h.Zxid, &d)
		return
	}
	o := take(&c.sent, h.Xid, func(o *op) bool { return !o.resolved })
	if o == nil {
		what := fmt.Sprintf("xid: that of the next request, zkd %d", h.Xid)
		e.report(c, Report{Class: Difference, Op: "order", What: []string{what}})
		e.stop(c, "zkd's answers do not follow the requests")
		return
	}
	e.compared(o, frame)
	for c.sent.Len() > 0 && (*c.sent.Front()).resolved {
		c.sent.Pop(1)
	}
	e.pump(c)
}

// connected takes zkd's answer to the connect request.
func (e *Engine) connected(c *conn, d *jute.Decoder) {
	var z jute.ConnectResponse
	z.Decode(d)
	a, s := c.response, c.session
	switch {
	case d.Err() != nil:
		e.report(c, Report{Class: Difference, Op: "connect", What: []string{"zkd's answer is no record"}})
		e.stop(c, "zkd's answer to the connect request is no record")
		return
	case z.SessionID == 0 && s.password != nil && s.lastZxid == 0:
		e.stop(c, "a session from before the shadow that zkd does not have")
		return
	case z.SessionID == 0:
		e.report(c, Report{Class: Order, Op: "connect", What: []string{"session: lives, zkd expired"}})
		e.stop(c, "the session has expired on zkd")
		return
	}
	c.zkdState = zkdUp
	s.zkd, s.password = z.SessionID, z.Password
	var what differences
	differ(&what, "timeout", a.TimeoutMs, z.TimeoutMs)
	differ(&what, "readOnly", a.ReadOnly, z.ReadOnly)
	differ(&what, "has readOnly", a.HasReadOnly, z.HasReadOnly)
	if !e.compare.sessions.learn(s.id, z.SessionID) {
		what.add("session", s.id, z.SessionID)
	}
	if len(what) > 0 {
		e.report(c, Report{Class: Difference, Op: "connect", What: what,
			Apache: fmt.Sprintf("%dms readOnly=%v", a.TimeoutMs, a.ReadOnly), Zkd: fmt.Sprintf("%dms readOnly=%v", z.TimeoutMs, z.ReadOnly)})
	}
	e.pump(c)
}

// compared compares zkd's answer with Apache's.
func (e *Engine) compared(o *op, frame []byte) {
	c := o.conn
	defer e.resolve(o)
	if o.answer == nil { // Apache's was lost
		e.closedSession(o)
		return
	}
	e.sum.Compared++
	e.sum.Lag = max(e.sum.Lag, e.now-o.at)
	a, z := decodeAnswer(o.op, o.answer), decodeAnswer(o.op, frame)
	open := o.late || e.isOpen(o.reads, o.writes) || e.anyIn(e.openLists, o.reads, o.writes)
	d := e.compare.answers(o.request, a, z, !open)
	if o.late {
		e.leaveWatches(o, z.Zxid)
	}
	if a.Err == 0 && z.Err == 0 {
		e.closedSession(o)
	}
	switch z.Err {
	case jute.ErrAuthFailed, jute.ErrSessionClosedRequireSASL, jute.ErrUnimplemented:
		c.closing = a.Err == z.Err
	}
	if len(d) == 0 {
		if o.op == jute.OpDelete && a.Err == 0 {
			delete(e.open, o.path)
		}
		return
	}
	r := Report{Class: e.class(o, a, z, d), Op: o.op.String(), Path: o.path, Request: o.String(), What: d, Apache: a.String(), Zkd: z.String()}
	if r.ID = known(o.request, a, z, d); r.ID != "" {
		r.Class = Known
	}
	e.report(c, r)
	if o.op.Write() && a.failed() != z.failed() {
		e.leaveOpen(o.writes, forever) // what follows from it says nothing new
	}
}

// closedSession forgets a session that was closed. All of its events have come.
func (e *Engine) closedSession(o *op) {
	if o.op != jute.OpCloseSession || o.conn.session == nil {
		return
	}
	if o.answer != nil {
		e.oldEvents(o.conn, forever, 0)
	}
	delete(e.sessions, o.conn.session.id)
	o.conn.closing = true
	if o.conn.zkdState == zkdUp {
		o.conn.zkdState = zkdClosed
		e.do(Close, o.conn, nil)
	}
}

// resolve is about an op that zkd has answered, or never will: those that wait for it do so
// no longer.
func (e *Engine) resolve(o *op) {
	if o.resolved {
		return
	}
	o.resolved = true
	o.conn.release(e, o)
	var next []*conn
	for _, w := range o.waiting {
		if w.waits--; w.waits == 0 {
			next = append(next, w.conn)
		}
	}
	o.waiting = nil
	for _, c := range next {
		e.pump(c)
	}
	for e.all.Len() > 0 && (*e.all.Front()).resolved {
		e.all.Pop(1)
	}
}

// advance gives the requests that have their place in the order to their connections.
func (e *Engine) advance() {
	for {
		for e.asks.Len() > 0 && ((*e.asks.Front()).answered || (*e.asks.Front()).resolved) {
			e.asks.Pop(1)
		}
		oldest := uint64(math.MaxUint64)
		if e.asks.Len() > 0 {
			oldest = (*e.asks.Front()).number
		}
		o := e.order.next(oldest, e.now-e.cfg.Hold)
		if o == nil {
			return
		}
		e.order.place(o)
		o.conn.queue.Push(o)
		e.pump(o.conn)
	}
}

// pump sends what may be sent.
func (e *Engine) pump(c *conn) {
	if c.zkdState == zkdClosed && c.closing { // what comes after a closeSession is dropped or refused
		ops := slices.Clone(c.queue.All())
		c.queue.Clear()
		for _, o := range ops {
			e.resolve(o)
		}
	}
	for c.zkdState == zkdUp && c.queue.Len() > 0 && c.sent.Len() < e.cfg.Window {
		o := *c.queue.Front()
		if o.waits > 0 {
			return
		}
		c.queue.Pop(1)
		c.sent.Push(o)
		o.sentAt = e.now
		e.do(Send, c, o.relativeTo(func(z jute.Zxid) jute.Zxid { return e.translate(c, z) }))
	}
}

// translate returns the zxid of zkd's for the last one that a client has seen.
func (e *Engine) translate(c *conn, a jute.Zxid) jute.Zxid {
	const steps = 1000
	for i := range jute.Zxid(steps) { // not each transaction is known
		if z, ok := e.compare.zxids.of(a - i); ok {
			return z
		}
	}
	return min(a, c.session.lastZxid)
}
