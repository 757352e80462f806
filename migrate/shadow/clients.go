package shadow

import (
	"slices"
	"strings"
	"time"

	"github.com/zkd-project/zkd/internal/fifo"
	"github.com/zkd-project/zkd/jute"
)

// FromClient takes bytes that a client sent. It keeps p.
func (e *Engine) FromClient(now time.Duration, id ConnID, p []byte) {
	e.now = now
	c := e.conns[id]
	if c == nil || c.passed {
		return
	}
	c.fromClient.Write(p)
	for {
		frame, ok, err := c.fromClient.Next()
		if err != nil {
			e.notProtocol(c)
			return
		}
		if !ok {
			break
		}
		e.request(c, frame)
	}
	e.bound(c)
}

// notProtocol is about a client's bytes that are no frame. A connection that begins with them
// is passed on: it is a four-letter word, TLS, or nonsense.
func (e *Engine) notProtocol(c *conn) {
	if c.connect == nil && !c.stopped {
		c.passed = true
		e.sum.Passed++
		return
	}
	e.stop(c, "the client sent bytes that are no frame")
}

func (e *Engine) request(c *conn, frame []byte) {
	if c.connect == nil {
		r := new(jute.ConnectRequest)
		d := jute.NewDecoder(frame)
		if r.Decode(&d); d.Err() != nil {
			c.passed = true // Apache closes it
			e.sum.Passed++
			return
		}
		c.connect = r
		e.sum.Connections++
		return
	}
	r, err := decodeRequest(frame)
	if err != nil {
		e.stop(c, "the client sent a frame without a header")
		return
	}
	if c.stopped {
		e.missed(c, r)
		return
	}
	e.asked++
	o := &op{request: r, conn: c, number: e.asked}
	c.hold(len(frame))
	c.asked.Push(o)
	e.asks.Push(o)
}

// missed is about a write that zkd does not get.
func (e *Engine) missed(c *conn, r *request) {
	if r.op == jute.OpCloseSession && c.session != nil {
		e.leaveEphemerals(c.session)
	}
	if !r.op.Write() || r.op == jute.OpCloseSession {
		return
	}
	e.sum.Missing++
	e.leaveOpen(r.writes, forever)
}

func (c *conn) hold(n int) { c.held += n }

// bound stops the comparison of a connection of which too much is held.
func (e *Engine) bound(c *conn) {
	held := c.held + c.fromClient.Held() + c.fromApache.Held() + c.fromZkd.Held()
	if c.stopped {
		held = 0
	}
	if held > e.cfg.MostOfOne || e.held > e.cfg.Most && held > e.cfg.Most/10 {
		e.stop(c, "zkd is too far behind")
	}
}

// release gives back what is held for an op.
func (c *conn) release(e *Engine, o *op) {
	c.held -= len(o.frame) + len(o.answer)
	if o.answered {
		e.held -= len(o.frame) + len(o.answer)
	}
	o.answer = nil
}

// Lost is about bytes of a connection that the caller could not keep: the comparison of the
// connection ends, and what it writes is not known any more.
func (e *Engine) Lost(now time.Duration, id ConnID) {
	e.now = now
	if c := e.conns[id]; c != nil && !c.passed {
		e.sum.Blind = true
		e.stop(c, "the shadow is too far behind")
		c.passed = true
	}
}

// FromApache takes bytes of Apache's for a client. It keeps p.
func (e *Engine) FromApache(now time.Duration, id ConnID, p []byte) {
	e.now = now
	c := e.conns[id]
	if c == nil || c.passed || c.stopped || c.connect == nil {
		return
	}
	c.fromApache.Write(p)
	for !c.stopped && !c.passed {
		frame, ok, err := c.fromApache.Next()
		if err != nil {
			e.stop(c, "Apache sent bytes that are no frame")
			return
		}
		if !ok {
			break
		}
		e.fromApache(c, frame)
	}
	e.bound(c)
	e.advance()
}

func (e *Engine) fromApache(c *conn, frame []byte) {
	if c.response == nil {
		r := new(jute.ConnectResponse)
		d := jute.NewDecoder(frame)
		if r.Decode(&d); d.Err() != nil {
			e.stop(c, "Apache's first frame is no answer to a connect")
			return
		}
		c.response = r
		e.begin(c)
		return
	}
	var h jute.ReplyHeader
	d := jute.NewDecoder(frame)
	if h.Decode(&d); d.Err() != nil {
		e.stop(c, "Apache sent a frame without a header")
		return
	}
	if h.Xid == jute.XidNotification {
		if !c.over {
			e.event(c, apacheSide, h.Zxid, &d)
		}
		return
	}
	o := take(&c.asked, h.Xid, func(o *op) bool { return !o.answered })
	if o == nil {
		e.stop(c, "Apache's answers do not follow the requests")
		return
	}
	o.answered, o.answer, o.at, o.before = true, frame, e.now, e.asked
	c.over = c.over || o.op == jute.OpCloseSession && h.Err == 0
	c.hold(len(frame))
	e.held += len(o.frame) + len(frame)
	o.place = h.Zxid
	for c.asked.Len() > 0 && (*c.asked.Front()).answered { // an auth may be answered before what came before it
		o := *c.asked.Front()
		c.asked.Pop(1)
		e.answered(o)
	}
}

// take returns the op that an answer with this xid belongs to: the first one, or else one
// that may overtake others. It marks nothing.
func take(list *fifo.List[*op], xid int32, waits func(*op) bool) *op {
	first := true
	for _, o := range list.All() {
		if !waits(o) {
			continue
		}
		want := o.xid
		if o.op == jute.OpPing {
			want = jute.XidPing
		}
		overtakes := o.op == jute.OpPing || o.op == jute.OpAuth || o.op == jute.OpSASL
		if want == xid && (first || overtakes) {
			return o
		}
		first = false
	}
	return nil
}

// answered is about the next op of a connection that Apache has answered.
func (e *Engine) answered(o *op) {
	c, made := o.conn, false
	if len(o.answer) > jute.JavaMaxBuffer {
		e.sum.Long, e.sum.LongPath = e.sum.Long+1, o.path
	}
	if o.op.Write() || o.op == jute.OpAddWatch || o.op == jute.OpSASL {
		a := decodeAnswer(o.op, o.answer)
		made = o.op.Write() && a.Err == 0
		e.follow(o, a)
		if o.op == jute.OpSASL && a.Err == 0 && len(a.parts) == 1 && *a.parts[0].data != nil {
			e.stop(c, "a SASL login, which can't be repeated")
			return
		}
	}
	if o.unsent != "" {
		e.sum.NotSent[o.unsent]++
		c.release(e, o)
		return
	}
	e.enqueue(o, made)
}

// enqueue gives a request to the order. made means that it made the transaction with the zxid
// of its answer.
func (e *Engine) enqueue(o *op, made bool) {
	c := o.conn
	made = made && o.place > c.place
	c.place = max(c.place, o.place)
	o.place = c.place
	e.all.Push(o)
	e.order.add(o, made)
}

// follow keeps account of what the answer tells of znodes that go by themselves, and adds the
// names that Apache has given.
func (e *Engine) follow(o *op, a *answer) {
	if a.failed() != 0 {
		return
	}
	for _, p := range a.parts {
		if p.path != nil && o.op.Write() && !slices.Contains(o.writes, *p.path) {
			o.writes = append(o.writes, *p.path)
		}
	}
	s := o.conn.session
	for _, m := range o.make {
		if m.part >= len(a.parts) || a.parts[m.part].path == nil {
			continue
		}
		path := *a.parts[m.part].path
		if m.mode.Ephemeral() && s != nil {
			s.ephemerals[strings.Clone(path)] = true
		} else {
			e.leaveComing(path, forever)
		}
	}
	if o.op == jute.OpDelete && s != nil {
		delete(s.ephemerals, o.path)
	}
	if o.op == jute.OpAddWatch && len(o.conn.persistent) < keptSeen {
		if o.conn.persistent == nil {
			o.conn.persistent = map[string]bool{}
		}
		o.conn.persistent[strings.Clone(o.path)] = true
	}
}

// Closed ends a client's connection. Apache's side of it is closed, too.
func (e *Engine) Closed(now time.Duration, id ConnID) {
	e.now = now
	c := e.conns[id]
	if c == nil {
		return
	}
	c.ended = true
	if !c.stopped && !c.passed {
		for _, o := range slices.Clone(c.asked.All()) {
			e.lost(o)
		}
	}
	c.asked.Clear()
	if c.session != nil && c.session.conn == c {
		c.session.gone = e.now
	}
	e.advance()
	e.finish(c)
}

// lost is about a request whose answer was lost with the connection.
func (e *Engine) lost(o *op) {
	c := o.conn
	switch {
	case o.resolved: // the one before has ended the comparison of the connection
	case o.answered:
		e.answered(o)
	case o.op == jute.OpCloseSession && c.session != nil: // clients do not wait for the answer
		o.answered, o.at, o.before = true, e.now, e.asked
		e.held += len(o.frame)
		e.enqueue(o, false)
	case o.op.Write():
		e.sum.Unknown++
		e.leaveOpen(o.writes, forever)
		e.resolve(o)
	default:
		e.resolve(o)
	}
}
