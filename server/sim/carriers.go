package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/zkd-project/zkd/internal/mux/streams"
	"github.com/zkd-project/zkd/jute"
)

// Carriers: in some runs few connections carry the sessions of an edge to a server. Both ends of such a connection are a Side of package streams, as in
// edges and servers, and the network has its bytes in order, late, or not at all. Requests and replies are frames in the streams. What the simulator knows
// of them stands in a list beside, and is taken when the frame has come.

// The ends of a carrier.
const (
	ofEdge = iota
	ofServer
)

// spread is how many streams a connection has before there is another one.
const spread = 2

// carrier is a connection of an edge with a process of a server.
type carrier struct {
	s    *Sim
	edge int
	n    *node
	life uint32 // of the process
	full bool   // it has refused a stream
	ends [2]end

	// Ghost.
	opened    []*carried // by the edge, and the server does not know yet
	answering int        // frames with pings that are not answered
	heard     uint64     // when something has come from the server, µs
	quits     bool       // the server has said that it takes no more streams
	silent    bool       // a stream has ended that had waited, while nothing came
}

// end is one end of a carrier.
type end struct {
	side  *streams.Side
	open  []*carried    // that this end has not ended, in the order of their numbers
	in    []byte        // has come, and is no whole frame yet
	away  bool          // what was written has not arrived
	deaf  uint64        // nothing is read until then, µs
	dumb  bool          // what is written is lost
	timer time.Duration // when Tick is called, or 0
	gone  bool          // the connection has ended here
}

// carried is one end of a stream.
type carried struct {
	rules  streams.Stream
	at     *carrier
	of     int
	client int
	relay  *relay // of an edge's end
	conn   *conn  // of a server's end, when a session is asked for
	out    []byte // waits to be sent
	in     []byte // has been read, and is no whole frame yet
	ends   bool   // the stream ends when out is sent
	rests  bool   // more is read a little later

	// Ghost.
	peer   *carried  // the other end, when there is one
	sent   []byte    // has been sent, and the other end has not read it
	frames []message // are sent, and the other end has not read them
	asked  uint64    // when the first was sent after all that has come, µs
	pings  bool      // a ping has no answer
	pingBy uint64    // when it is sent at the latest
	pinged uint64    // when it was sent
	enough bool      // the server's line has heard it
}

// message is what a frame means: a request, a reply or, if it has no kind and no event, nothing alone.
type message struct {
	req request
	rep reply
}

// drawCarriers draws how the sessions of an edge come to a server.
func (c *Config) drawCarriers(pick func(of ...int) int) {
	if c.Carriers = pick(0, 1, 1, 2); c.Carriers > 0 {
		c.Window, c.MaxOut = pick(60, 300, 2000, streams.Window), pick(300, 3000, streams.MaxOut)
	}
}

// carrierTo returns the connection on which an edge opens its next stream to a server.
func (s *Sim) carrierTo(edge int, n *node) *carrier {
	var list []*carrier
	var have []int
	for _, c := range s.carriers {
		if c.edge == edge && c.n == n && c.life == n.life && !c.full && !c.ends[ofEdge].gone {
			list, have = append(list, c), append(have, c.ends[ofEdge].side.Len())
		}
	}
	i, another := streams.Place(have, spread, s.cfg.Carriers)
	if i >= 0 && !another {
		return list[i]
	}
	s.stats.Carriers++
	c := &carrier{s: s, edge: edge, n: n, life: n.life, heard: s.now}
	cfg := streams.Config{Now: s.elapsed, Window: s.cfg.Window, MaxOut: s.cfg.MaxOut, Idle: time.Duration(s.between(s.cfg.SessionMs/4, s.cfg.SessionMs*2)) * time.Millisecond}
	c.ends[ofEdge].side = streams.New(cfg)
	cfg.Accept = func() *streams.Stream { return &c.newCarried(ofServer).rules }
	c.ends[ofServer].side = streams.New(cfg)
	s.carriers = append(slices.DeleteFunc(s.carriers, func(c *carrier) bool { return c.ends[ofEdge].gone && c.ends[ofServer].gone }), c)
	return c
}

func (c *carrier) newCarried(of int) *carried {
	t := &carried{at: c, of: of}
	t.rules.User = t
	return t
}

// dial opens a stream to a server, and asks for the session there.
func (e *relay) dial(n *node, req request) {
	s := e.s
	for n.alive {
		c := s.carrierTo(e.edge, n)
		t := c.newCarried(ofEdge)
		t.client, t.relay = e.c.id, e
		if c.ends[ofEdge].side.Open(&t.rules, netip.AddrFrom4([4]byte{127, 0, 0, byte(e.c.id)}).String()) != nil {
			c.full = true
			continue
		}
		if c.silent || c.quits {
			s.fail("Y6", "edge %d opens a stream for client %d on a connection to server %d that has not answered (%v), or takes no more (%v)", c.edge, e.c.id, n.id, c.silent, c.quits)
		}
		s.stats.CarriedStreams++
		c.ends[ofEdge].open, c.opened = append(c.ends[ofEdge].open, t), append(c.opened, t)
		e.stream = t
		t.ask(req)
		return
	}
	e.retry()
}

// hangUp gives up the stream of an edge's session, if it has one.
func (e *relay) hangUp() {
	if t := e.stream; t != nil {
		e.stream = nil
		t.close()
	}
}

// ask sends a request.
func (t *carried) ask(req request) {
	w := req.wire(false)
	h := jute.RequestHeader{Xid: w.Xid, Type: w.Op}
	b, mark := jute.BeginFrame(t.out)
	t.out = jute.EndFrame(append(h.Append(b), w.Body...), mark)
	t.frames = append(t.frames, message{req: req})
	t.push()
}

// tell notes what the frame means that a server's line is sending, or ends the stream.
func (t *carried) tell(r *reply) {
	switch {
	case !r.closed:
		t.frames = append(t.frames, message{rep: *r})
	case !t.ends:
		t.close()
	}
}

// flush takes what the line of a server's end has to send, when what it took before is sent. If the line ends, that is the last.
func (t *carried) flush() {
	if out := t.conn.line.Outbox.Unsent(); out != nil && (len(t.out) == 0 || t.conn.ending) {
		t.conn.line.Outbox.Take()
		for _, b := range out.Full() {
			t.out = append(t.out, b...)
		}
		t.out = append(t.out, out.Last()...)
		out.Release()
	}
	if t.conn.ending && !t.ends {
		t.ends = true
		t.at.later(ofServer, 1_000_000, t.close) // a client that does not read is not waited for
	}
	t.push()
}

// push sends what can be sent.
func (t *carried) push() {
	if t.end().gone || t.rules.Closed() {
		return
	}
	n := t.rules.Send(t.out)
	t.sent = append(t.sent, t.out[:n]...)
	if t.out = t.out[n:]; n > 0 && t.asked == 0 {
		t.asked = t.at.s.now
	}
	switch {
	case len(t.out) > 0:
		t.at.s.stats.CarriedWaits++
	case t.ends:
		t.close()
	case n > 0 && t.conn != nil && t.conn.line.Outbox.Unsent() != nil:
		t.flush()
	}
	t.at.work(t.of)
}

// dead reports whether the process has ended whose end of the stream it is.
func (t *carried) dead() bool {
	return t.of == ofServer && (!t.at.n.alive || t.at.n.life != t.at.life)
}

func (t *carried) end() *end { return &t.at.ends[t.of] }

// close ends the stream at this end.
func (t *carried) close() {
	c, s := t.at, t.at.s
	if t.end().gone || t.rules.Closed() {
		return
	}
	if t.of == ofEdge && t.asked > c.heard && s.now-t.asked >= uint64(streams.AnswerAfter.Microseconds()) {
		c.silent = true
		s.stats.CarriersSilent++
	}
	t.rules.Close()
	t.end().open = slices.DeleteFunc(t.end().open, func(o *carried) bool { return o == t })
	c.work(t.of)
}

// ping has the user's presence told with that of others.
func (t *carried) ping(within time.Duration) {
	if t.rules.Ping(within) {
		t.pings, t.pingBy = true, t.at.s.now+uint64(within.Microseconds())
		t.at.work(t.of)
	}
}

// later schedules something at an end.
func (c *carrier) later(of int, us uint64, do func()) {
	e := event{at: c.s.now + us, kind: evUndo, node: -1, pkt: &packet{undo: do}}
	if of == ofServer {
		e.node, e.life = c.n.idx, c.life
	}
	c.s.agenda.push(e)
}

// work does what the goroutine and the timer of an end do: it writes what waits, if the network has taken what was written before.
func (c *carrier) work(of int) {
	e, s := &c.ends[of], c.s
	if e.gone {
		return
	}
	if due := e.side.Due(); due != 0 && (e.timer == 0 || due < e.timer) {
		e.timer = due
		c.later(of, max(s.now, uint64(due.Microseconds()))-s.now, func() { c.tick(of, due) })
	}
	if e.away || e.side.Waiting() == 0 && !e.side.Over() {
		return
	}
	e.away = true
	b, over := e.side.Take(nil), e.side.Over()
	if !e.dumb {
		c.later(1-of, s.between(50, s.flight()), func() { c.arrives(1-of, b, over) })
	}
	if over {
		if len(e.open) > 0 {
			s.fail("Y8", "an end (%d) of a connection of edge %d with server %d ends it with %d streams", of, c.edge, c.n.id, len(e.open))
		}
		c.fail(of, io.EOF)
	}
	for _, t := range slices.Clone(e.open) { // there is room again
		if len(t.out) > 0 {
			t.push()
		}
	}
}

// flight is how long it takes at most, in µs, until what an end writes is at the other one. A stream moves its window in two flights and what they wait for:
// after the chaos, the smallest windows must let it move what its client asks for, and the answer to a resumption before the edge tries another server.
func (s *Sim) flight() uint64 {
	us := 2 * s.transit()
	if s.phase != phaseChaos {
		us = min(us, 10*uint64(s.cfg.Window))
	}
	return us
}

func (c *carrier) tick(of int, due time.Duration) {
	e := &c.ends[of]
	if e.gone || e.timer != due {
		return
	}
	e.timer = 0
	before := e.side.Waiting()
	e.side.Tick()
	if e.side.Waiting() > before && of == ofEdge {
		for _, t := range e.open {
			if t.pings && t.pinged == 0 {
				t.pinged = c.s.now
				if t.asked == 0 {
					t.asked = c.s.now
				}
			}
		}
	}
	c.work(of)
}

// arrives has bytes come to an end, perhaps in two pieces. last: after them the connection ends.
func (c *carrier) arrives(of int, b []byte, last bool) {
	e, from, s := &c.ends[of], &c.ends[1-of], c.s
	switch {
	case e.gone:
		return
	case s.now < e.deaf:
		c.later(of, e.deaf-s.now, func() { c.arrives(of, b, last) })
		return
	case len(b) > 1 && s.percent(10):
		k := 1 + s.rng.IntN(len(b)-1)
		rest, ends := b[k:], last
		c.later(of, 50, func() { c.arrives(of, rest, ends) })
		b, last = b[:k], false
	default:
		from.away = false
	}
	for e.in = append(e.in, b...); len(e.in) >= streams.HeaderLen && !e.gone; {
		h, err := streams.DecodeHeader(e.in)
		if err != nil {
			s.fail("Y2", "an end of a connection of edge %d with server %d gets %v", c.edge, c.n.id, err)
		}
		if len(e.in) < streams.HeaderLen+h.Length {
			break
		}
		body := e.in[streams.HeaderLen:][:h.Length]
		e.in = e.in[streams.HeaderLen+h.Length:]
		c.handle(of, &h, body)
	}
	if last {
		c.fail(of, io.EOF)
	}
	c.work(of)
	if !from.away && !from.gone {
		c.later(1-of, 10, func() { c.work(1 - of) })
	}
	c.check()
}

// handle handles a frame.
func (c *carrier) handle(of int, h *streams.Header, body []byte) {
	s := c.s
	if of == ofEdge {
		c.heard, c.quits = s.now, c.quits || h.Kind == streams.KindQuit
	}
	news, err := c.ends[of].side.Handle(h, body)
	switch {
	case errors.Is(err, streams.ErrSlow):
		c.breaks(of)
		return
	case err != nil:
		s.fail("Y2", "an end of a connection of edge %d with server %d gets what breaks the rules: %v", c.edge, c.n.id, err)
	case h.Kind == streams.KindOpen:
		c.open(h.Stream, &news)
		return
	case len(news.Pings) > 0:
		c.pinged(news.Pings)
		return
	}
	for _, p := range news.Pongs {
		p.User.(*carried).ponged(h.Kind == streams.KindPongs)
	}
	if news.Stream == nil {
		return
	}
	switch t := news.Stream.User.(*carried); {
	case of == ofServer && t.peer == nil:
		s.fail("Y5", "server %d keeps a stream that it has refused", c.n.id)
	case h.Kind == streams.KindCredit:
		t.push()
	default:
		t.read(false)
	}
}

// open has the server take a stream of the edge.
func (c *carrier) open(id uint32, news *streams.News) {
	i := slices.IndexFunc(c.opened, func(t *carried) bool { return t.rules.ID() == id })
	by := c.opened[i]
	c.opened = slices.Delete(c.opened, i, i+1)
	if !news.Opened { // it takes none any more
		return
	}
	t := news.Stream.User.(*carried)
	t.client, t.peer, by.peer = by.client, by, t
	c.ends[ofServer].open = append(c.ends[ofServer].open, t)
	if s := c.s; s.phase == phaseChaos && s.cfg.Faults[FaultEdge] > 0 && s.percent(10) { // as if the edge's identity had ended
		s.stats.CarriersQuit++
		c.ends[ofServer].side.Quit()
		t.close()
	}
}

// pinged has the lines of a server hear pings. The answer is sent a little later.
func (c *carrier) pinged(pings []*streams.Stream) {
	var enough []bool
	for _, p := range pings {
		t := p.User.(*carried)
		t.enough = t.conn != nil && !t.conn.killed && c.s.gathered(c.n, t.conn, t.peer.pinged)
		enough = append(enough, t.enough)
	}
	c.answering++
	c.later(ofServer, c.s.between(0, c.s.cfg.SessionMs*10), func() {
		if c.answering--; !c.ends[ofServer].gone {
			c.ends[ofServer].side.Answer(pings, enough)
			c.work(ofServer)
		}
	})
}

// ponged handles the answer to a ping.
func (t *carried) ponged(enough bool) {
	r := reply{asked: t.pinged}
	if !enough {
		r.err = jute.ErrUnimplemented
	} else if !t.peer.enough {
		t.at.s.fail("Y4", "the ping of client %d counts as heard, and server %d has not heard it", t.client, t.at.n.id)
	}
	t.pings, t.pinged, t.asked = false, 0, 0
	if t.relay.stream == t {
		t.relay.gathered(&r)
	}
}

// read reads what has come, some of it perhaps later, and nothing for an edge's client that is deaf. all: everything is read now.
func (t *carried) read(all bool) {
	s := t.at.s
	t.asked = 0
	if held := t.rules.Held(); held > 4*s.cfg.Window+64 {
		s.fail("Y7", "a stream of client %d holds %d bytes", t.client, held)
	}
	for deaf := t.of == ofEdge && s.now < s.clients[t.client].deaf; !t.rules.Closed() && !t.dead() && (all || !deaf); {
		if !all && s.percent(20) {
			if !t.rests {
				t.rests = true
				t.at.later(t.of, s.between(10, 2000), func() {
					if t.rests = false; !t.end().gone {
						t.read(false)
					}
				})
			}
			break
		}
		if t.rules.Unread() == 0 {
			if err := t.rules.Err(); err != nil {
				t.ended(err)
			}
			break
		}
		b := make([]byte, 1+s.rng.IntN(t.rules.Unread()))
		b = b[:t.rules.Read(b)]
		if sent := t.peer.sent; len(sent) < len(b) || !bytes.Equal(sent[:len(b)], b) {
			s.fail("Y1", "an end (%d) of the stream of client %d reads %x, sent was %x", t.of, t.client, b, sent)
		}
		t.peer.sent = t.peer.sent[len(b):]
		t.in = append(t.in, b...)
		for len(t.in) >= 4 && len(t.in)-4 >= int(binary.BigEndian.Uint32(t.in)) && !t.rules.Closed() && !t.dead() {
			t.in = t.in[4+binary.BigEndian.Uint32(t.in):]
			m := t.peer.frames[0]
			t.peer.frames = t.peer.frames[1:]
			t.got(&m)
		}
	}
	t.at.work(t.of)
}

// got handles a whole frame.
func (t *carried) got(m *message) {
	s := t.at.s
	switch {
	case t.of == ofServer && t.ends: // nobody reads it
	case t.of == ofServer:
		if m.req.via = t; t.conn != nil {
			m.req.origin = t.conn.origin
		}
		s.serve(t.at.n, t.client, &m.req)
	case t.relay.stream == t && (m.rep.kind != 0 || m.rep.event != 0 || m.rep.frame != nil):
		s.received(t.relay.c, &m.rep)
	}
}

// ended handles the end of a stream by the other end, or of the connection.
func (t *carried) ended(err error) {
	s := t.at.s
	if t.peer != nil && err == io.EOF && len(t.peer.sent) > 0 {
		s.fail("Y1", "a stream of client %d ends, and %d bytes before its end have not come", t.client, len(t.peer.sent))
	}
	if t.of == ofServer {
		if t.conn != nil && !t.conn.killed {
			t.at.n.forget(t.conn)
		}
	} else if e := t.relay; e.stream == t && e.c.relay == e {
		s.received(e.c, &reply{attempt: e.c.attempt, closed: true})
	}
	t.close()
}

// fail ends the connection at an end, with all streams.
func (c *carrier) fail(of int, err error) {
	e := &c.ends[of]
	if e.gone {
		return
	}
	e.gone = true
	e.side.Fail(err)
	for _, t := range slices.Clone(e.open) {
		t.read(true)
	}
	e.open, e.in = nil, nil
}

// breaks has the connection fail, at an end at once, and at the other one soon or late.
func (c *carrier) breaks(of int) {
	s, late := c.s, 2*c.s.transit()+1
	if s.phase == phaseChaos && of == ofEdge && s.percent(s.cfg.HangPct) {
		late = s.between(late, s.cfg.SessionMs*1000)
	}
	c.later(1-of, late, func() { c.fail(1-of, io.ErrUnexpectedEOF) })
	c.fail(of, io.ErrUnexpectedEOF)
}

// dropCarriers ends the connections of a process that has ended.
func (s *Sim) dropCarriers(n *node) {
	for _, c := range s.carriers {
		if c.n == n && !c.ends[ofServer].gone {
			c.ends[ofServer] = end{gone: true, side: c.ends[ofServer].side}
			c.later(ofEdge, 2*s.transit()+1, func() { c.fail(ofEdge, io.ErrUnexpectedEOF) })
		}
	}
}

// listens has a client that was deaf read what has come for it.
func (s *Sim) listens(client *client) {
	for _, c := range s.carriers {
		for _, t := range slices.Clone(c.ends[ofEdge].open) {
			if t.client == client.id {
				t.read(false)
			}
		}
	}
}

// troubleCarriers troubles the connections of an edge that carry its sessions.
func (s *Sim) troubleCarriers(edge, what int) {
	for _, c := range slices.Clone(s.carriers) {
		if c.edge != edge || c.ends[ofEdge].gone || c.ends[ofServer].gone {
			continue
		}
		switch {
		case what <= 1:
			c.breaks(ofEdge)
		case s.percent(30):
		case what == 3: // nothing gets through, and nobody says so
			s.stats.CarriersDumb++
			c.ends[ofEdge].dumb, c.ends[ofServer].dumb = true, s.percent(50)
			c.later(ofEdge, s.between(s.cfg.SessionMs*500, s.cfg.SessionMs*1500), func() { c.breaks(ofEdge) })
		case what == 5:
			c.breaks(ofEdge)
		case what == 6:
			s.stats.CarriersStalled++
			c.ends[s.rng.IntN(2)].deaf = s.now + s.between(1000, s.cfg.SessionMs*300)
		}
	}
}

// check checks a connection on which nothing is under way.
func (c *carrier) check() {
	if !c.quiet() {
		return
	}
	s, both := c.s, 0
	for of := range c.ends {
		for _, t := range c.ends[of].open {
			if len(t.out) > 0 && t.rules.Err() == nil && t.peer.rules.Unread() == 0 {
				s.fail("Y3", "%d bytes of client %d wait at an end (%d) of a connection on which nothing else waits", len(t.out), t.client, of)
			}
			if of == ofServer && t.conn != nil && len(t.out) == 0 && t.conn.line.Outbox.Unsent() != nil {
				s.fail("Y3", "output of server %d for client %d waits, and its stream takes more", c.n.id, t.client)
			}
			if of == ofServer && !t.peer.rules.Closed() {
				both++
			}
			if t.pings && t.rules.Err() == nil && t.pingBy < s.now {
				s.fail("Y4", "the ping of client %d is not answered", t.client)
			}
		}
	}
	edges, servers := &c.ends[ofEdge], &c.ends[ofServer]
	if n := len(edges.open) + len(servers.open) - both; edges.side.Len() != n || servers.side.Len() != n {
		s.fail("Y5", "edge %d and server %d have %d and %d streams, of which %d are open", c.edge, c.n.id, edges.side.Len(), servers.side.Len(), n)
	}
}

// quiet reports whether nothing is under way on a connection.
func (c *carrier) quiet() bool {
	quiet := func(e *end) bool {
		return !e.gone && !e.away && len(e.in) == 0 && e.side.Waiting() == 0 && !e.side.Over() && c.s.now >= e.deaf
	}
	return quiet(&c.ends[ofEdge]) && quiet(&c.ends[ofServer]) && c.answering == 0
}

// carriersTidy reports whether all connections are quiet, and their streams are those of sessions.
func (s *Sim) carriersTidy() bool {
	for _, c := range s.carriers {
		if c.ends[ofEdge].gone && c.ends[ofServer].gone {
			continue
		}
		if !c.quiet() {
			return false
		}
		for _, t := range c.ends[ofEdge].open {
			if t.relay.stream != t || t.relay.c.relay != t.relay {
				return false
			}
		}
		for _, t := range c.ends[ofServer].open {
			if t.conn == nil || t.conn.killed || t.peer.rules.Closed() {
				return false
			}
		}
	}
	return !slices.ContainsFunc(s.nodes, func(n *node) bool {
		return slices.ContainsFunc(n.conns, func(c *conn) bool { return c.via != nil && c.via.end().gone })
	})
}
