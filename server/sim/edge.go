package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
	readonly "github.com/zkd-project/zkd/server/away"
	"github.com/zkd-project/zkd/server/datatree"
)

// Edges: some clients have their sessions through an edge, in exactly-once sessions upstream. What an edge decides are the rules of package resume; here are
// its connections. When one to a server is lost, the client's own stays: all checks of clients are those of one long connection.
//
// Identities are not simulated.

// numEdges is how many edges there are.
const numEdges = 2

// relay is the session of a client at an edge.
type relay struct {
	s    *Sim
	c    *client
	edge int

	rules  *resume.Session
	queue  resume.Queue[reply]
	calls  []*relayCall   // without an answer, in their order
	untold []*relayCall   // ghost: of which the client has no answer, in their order
	number int64          // of the last request
	local  []resume.Event // of the memory, that the client is to be told

	away    *readonly.Session // a read-only one, or nil
	asked   request           // of the client, for a session
	stream  *carried          // to a server, on a connection that carries others, or nil
	born    bool              // the client has it
	over    bool              // the client's connection has ended
	spoke   uint64            // when the client sent something, µs
	told    uint64            // when it was told something, µs
	heard   uint64            // when the newest request was sent that a server has answered, µs
	forgot  bool              // a server could not tell what persistent watches have missed
	crashed bool              // the edge has

	// Of the connection upstream.
	server    *node // nil while there is none
	origin    uint64
	signs     *resume.Signs
	pinged    int  // pings without an answer
	unheard   bool // the server gets nothing any more
	cutOff    bool // and nothing comes from it
	exact     bool
	restoring bool          // the reply to a setWatches is awaited
	owed      []owedOutcome // known before the events that come first
	resumed   bool          // the next answer is the first one on this connection
}

// relayCall is a request of a client.
type relayCall struct {
	req    request // as the client has sent it
	number int64
	rules  resume.Request
	place  resume.Place[reply]
	seen   jute.Zxid // ghost: by the client, when it asked
	sent   bool      // on this connection
	before bool      // on an earlier one
}

// owedOutcome is what became of a write of an earlier connection.
type owedOutcome struct {
	call *relayCall
	rep  reply
}

// The xids of an edge's own requests.
const (
	xidRestore int32 = jute.XidSetWatches
	xidReplay  int32 = -17
)

// behindEdge reports whether a client has its sessions through an edge.
func (s *Sim) behindEdge(c *client) bool { return s.cfg.Edges > 0 && c.id%s.cfg.Edges == 0 }

// drawEdges draws which clients are behind edges, and how often these fail. Local sessions end with their server.
func (c *Config) drawEdges(r *rand.Rand) {
	c.Edges = pick(r, 0, 0, 0, 1, 2)
	if fault := c.ElectionMs * pick[uint64](r, 0, 3, 10, 30); c.Edges > 0 {
		c.Faults[FaultEdge] = fault
	}
	if c.BigPct > 0 || c.Local > 0 || c.MixedMs > 0 || c.Faults[FaultRetire] > 0 || c.Site != SiteStays {
		c.Edges, c.Faults[FaultEdge] = 0, 0
	}
	defer func() { // after all other draws
		if c.Edges > 0 {
			c.Cached = pick(r, 0, 1, 2)
			c.Away = c.Cached > 0 && r.IntN(2) == 0
			defer c.drawCarriers(func(of ...int) int { return pick(r, of...) })
		}
		if c.Cached > 0 {
			c.Pipeline = min(c.Pipeline, pick(r, 1, 2, 16)) // nothing else is under way when a memory answers
		}
	}()
	if c.Edges > 0 && c.Rate == 0 && c.Capacity == 0 && r.IntN(2) == 0 { // much happens between two connections
		c.Clients, c.Pipeline, c.WatchPct, c.ThinkUs, c.Faults[FaultEdge] = 5, 16, 60, c.ElectionMs*10, c.ElectionMs/2
	}
}

// viaEdge has a client ask an edge for its session.
func (s *Sim) viaEdge(c *client, req request) {
	seen := jute.Zxid(0)
	if req.kind == reqResume {
		seen = c.seen
	}
	e := &relay{s: s, c: c, edge: s.rng.IntN(numEdges), asked: req, spoke: s.now, heard: s.now, rules: resume.New(seen, 0, nil)}
	c.relay = e
	s.stats.Relays++
	e.reach()
}

// reach tries a server. The next one follows if it does not answer.
func (e *relay) reach() {
	s, c := e.s, e.c
	if e.over || e.server != nil || e.away != nil || e.beginAway() {
		return
	}
	timeout := uint64(e.asked.timeout) * 1000
	if e.born && s.now-e.heard >= timeout {
		e.end("no server was reached")
		return
	}
	e.hangUp()
	c.attempt++
	attempt := c.attempt
	if s.now >= s.cut[e.edge] {
		req := e.asked
		req.attempt, req.seen, req.sent, req.floor, req.exact, req.confirmed = attempt, e.rules.Greets(), s.now, s.ghost.acked, true, e.confirmed()
		if req.session != 0 {
			req.kind = reqResume
			s.relinquish(req.session, req.timeout)
		}
		n := s.nodes[s.rng.IntN(len(s.nodes))]
		if s.phase == phaseLive {
			n = s.nodes[s.core[s.rng.IntN(len(s.core))]]
		}
		if s.cfg.Carriers > 0 {
			e.dial(n, req)
		} else {
			s.afterPacket(evToServer, n, s.between(10, 500), &packet{to: n.idx, client: c.id, req: req})
		}
	}
	s.afterUndo(min(timeout/3, s.cfg.SessionMs*500), func() {
		if c.relay == e && c.attempt == attempt {
			e.reach()
		}
	})
}

// retry tries another server soon.
func (e *relay) retry() {
	e.hangUp()
	e.c.attempt++ // what comes of the last attempt does not count
	attempt := e.c.attempt
	e.s.afterUndo(e.s.between(e.s.cfg.ElectionMs*20, e.s.cfg.ElectionMs*200), func() {
		if e.c.relay == e && e.c.attempt == attempt {
			e.reach()
		}
	})
}

// confirmed returns the number up to which all requests have their answers.
func (e *relay) confirmed() int64 {
	if len(e.calls) == 0 {
		return e.number
	}
	return e.calls[0].number - 1
}

// received handles what a server sends.
func (e *relay) received(r *reply) {
	givenUp := r.attempt != e.c.attempt || e.over
	if givenUp || e.server != nil && e.cutOff {
		return
	}
	switch {
	case r.closed && e.server == nil:
		e.retry()
	case r.closed:
		e.lost()
	case r.kind == reqCreateSession || r.kind == reqResume:
		e.connected(r)
	case r.event != 0:
		e.hears(r)
		if s := e.s; s.phase == phaseChaos && s.cfg.Faults[FaultEdge] > 0 && s.percent(2) { // perhaps between two events of a transaction
			e.lost()
		}
	case r.kind == 0:
		e.fed(r)
	default:
		e.replied(r)
	}
}

// connected handles the answer to the request for a session.
func (e *relay) connected(r *reply) {
	s, c := e.s, e.c
	if r.err != 0 {
		defer e.hangUp()
		if s.ghost.lives(e.asked.session, e.asked.sent) {
			s.fail("S4", "an edge is told that session %v of client %d has expired; it lives", e.asked.session, c.id)
		}
		if !e.born {
			e.over = true
			e.tell(r)
			return
		}
		e.expired()
		return
	}
	e.server, e.origin, e.exact, e.heard = s.nodes[int(r.origin>>56)-1], r.origin, r.exact, s.now
	e.signs, e.pinged, e.unheard, e.cutOff = &resume.Signs{}, 0, false, false
	e.signs.Begins(s.elapsed())
	e.look(e.signs)
	e.rules.Connected(r.features)
	e.number = resume.After(e.number, r.done, len(e.calls))
	e.asked.session, e.asked.timeout = r.session, r.timeout
	if e.resumed = e.born; !e.born {
		e.born = true
		s.ghost.exactOf(r.session).issued = nil // of earlier holders of the session
		hello := *r
		hello.zxid = e.rules.Shown() // its frame has none
		e.tell(&hello)
	} else {
		s.stats.RelayResumes++
	}
	e.decide(r)
	if e.rules.CatchesUp() { // the memory may have told more since
		e.send(request{kind: reqSync, cxid: xidCatchUp})
	}
	for _, q := range e.rules.RestoreWatches(1<<20, false) {
		e.restoring = true
		e.send(request{kind: reqSetWatches, cxid: xidRestore, restore: &q})
	}
	q, begins, err := e.rules.Replay()
	switch {
	case err != nil:
		e.forgot = true
		e.lost()
		return
	case begins:
		s.stats.RelayReplays++
		e.send(request{kind: reqFeed, cxid: xidReplay, op: jute.OpSubscribe, body: q.Append(nil)})
	}
	if !e.restoring {
		e.settle()
	}
	e.flush()
}

// decide decides what became of the requests under way.
func (e *relay) decide(r *reply) {
	s := e.s
	kept := e.calls[:0]
	for _, call := range e.calls {
		i := slices.IndexFunc(r.outcomes, func(o datatree.Outcome) bool { return o.Number == call.number })
		fate := exact.Again
		switch {
		case !call.before:
		case !e.exact:
			fate = exact.Lost
		default:
			fate = resume.Fate(call.number, call.req.wire(false).Op, r.done, i >= 0)
		}
		rep := reply{kind: call.req.kind, path: call.req.path}
		switch fate {
		case exact.Again:
			kept = append(kept, call)
			continue
		case exact.Answered:
			s.stats.Replayed++
			rep.zxid, rep.err, rep.refused = r.outcomes[i].Zxid, r.outcomes[i].Code, false
		case exact.Refused:
			rep.err, rep.refused = jute.ErrOperationTimeout, true
		default:
			e.rules.Dropped(&call.rules)
			e.calls = append(kept, e.calls...)
			e.end("a request can't be repeated")
			return
		}
		e.owed = append(e.owed, owedOutcome{call, rep})
	}
	clear(e.calls[len(kept):])
	e.calls = kept
}

// settle tells the outcomes of earlier requests.
func (e *relay) settle() {
	owed := e.owed
	e.owed = nil
	for _, o := range owed {
		e.rules.Shows(o.rep.zxid)
		e.rules.Answered(&o.call.rules, o.rep.err)
		e.answer(o.call, o.rep)
	}
}

// asks takes a request of the client.
func (e *relay) asks(req request) {
	if e.over {
		return
	}
	if e.away != nil {
		e.answersAway(&req)
		return
	}
	s := e.s
	e.spoke = s.now
	if req.kind == reqPing { // the edge answers it itself
		e.ping()
		return
	}
	if e.remembers(&req) {
		return
	}
	e.goUpstream()
	e.number++
	call := &relayCall{req: req, number: e.number, seen: e.rules.Seen()}
	w := call.req.wire(false)
	call.rules.Of(w.Op, w.Body)
	e.rules.Asks(&call.rules, w.Body)
	e.queue.Push(&call.place)
	e.calls = append(e.calls, call)
	e.untold = append(e.untold, call)
	if call.req.covered() {
		g := s.ghost.exactOf(e.asked.session)
		g.issued = append(g.issued, int32(call.number))
	}
	e.flush()
}

// ping keeps the session alive.
func (e *relay) ping() {
	if e.server == nil {
		return
	}
	e.pinged++
	if len(e.calls) == 0 && e.pinged == 1 && !e.restoring {
		e.gather()
		return
	}
	e.send(request{kind: reqPing, cxid: jute.XidPing})
}

// gather sends the ping of an idle client a little later, with those of others.
func (e *relay) gather() {
	s, signs, within := e.s, e.signs, resume.PingWithin(e.timeout())
	signs.Writes(s.elapsed() + within)
	if e.stream != nil {
		e.stream.ping(within)
		return
	}
	s.afterUndo(s.between(0, uint64(within.Microseconds())), func() {
		if e.server != nil && e.signs == signs {
			e.transmit(request{kind: reqGathered})
		}
	})
}

// gathered handles the answer to such a ping.
func (e *relay) gathered(r *reply) {
	if r.err != 0 { // that was not enough
		e.send(request{kind: reqPing, cxid: jute.XidPing})
		return
	}
	e.pinged--
	e.heard = max(e.heard, r.asked)
	e.signs.Hears(e.s.elapsed())
}

// pings is called while the client is there.
func (e *relay) pings() {
	e.spoke = e.s.now
	e.checkPatience()
	if e.server != nil && e.s.elapsed()-e.signs.Wrote() >= e.timeout()/3 {
		e.ping()
	}
}

func (e *relay) timeout() time.Duration { return time.Duration(e.asked.timeout) * time.Millisecond }

// elapsed returns how long the run has taken, in its time.
func (s *Sim) elapsed() time.Duration { return time.Duration(s.now) * time.Microsecond }

// look gives the connection with these signs up if its server is silent, and is called again.
func (e *relay) look(signs *resume.Signs) {
	if e.server == nil || e.signs != signs {
		return
	}
	waits := len(e.calls) > 0 || e.pinged > 0 || e.restoring
	silent, next := signs.LookForRelay(e.s.elapsed(), e.timeout(), waits)
	if silent {
		e.lost()
		return
	}
	e.s.afterUndo(uint64(next.Microseconds()), func() { e.look(signs) })
}

// checkPatience checks that no client waits for a silent server until it gives up, which it does two thirds of its timeout after it asked and was told something: X8.
// For how long there was no server at all, or one that answered, does not count.
func (e *relay) checkPatience() {
	unheard := e.unheard || e.stream != nil && e.stream.end().dumb
	if e.server == nil || !unheard || len(e.calls) == 0 {
		return
	}
	asked := time.Duration(e.s.now-max(e.told, e.calls[0].req.sent)) * time.Microsecond
	if waits := min(asked, e.signs.Silence(e.s.elapsed())); waits >= e.timeout()*2/3 {
		e.s.fail("X8", "client %d has waited for %v behind an edge, whose server is silent", e.c.id, waits)
	}
}

// flush sends requests that nothing holds up.
func (e *relay) flush() {
	for _, call := range e.calls {
		switch {
		case call.sent:
			continue
		case e.server == nil || e.rules.Holds() || e.rules.Overtakes(&call.rules):
			return
		}
		if call.before {
			e.s.stats.Resent++
		}
		call.sent = true
		if e.exact {
			e.rules.Sent(&call.rules)
		}
		req := call.req
		req.cxid, req.confirmed = int32(call.number), e.confirmed()
		e.send(req)
	}
}

// send sends a request on the connection upstream.
func (e *relay) send(req request) {
	e.signs.Writes(e.s.elapsed())
	e.transmit(req)
}

func (e *relay) transmit(req request) {
	s := e.s
	if e.unheard {
		return
	}
	req.origin, req.attempt, req.session, req.auth, req.floor, req.sent = e.origin, e.c.attempt, e.asked.session, e.c.address(), s.ghost.acked, s.now
	if e.stream != nil {
		e.stream.ask(req)
		return
	}
	s.afterPacket(evToServer, e.server, s.transit(), &packet{to: e.server.idx, client: e.c.id, req: req})
}

// replied handles a reply.
func (e *relay) replied(r *reply) {
	if r.kind == reqGathered {
		e.gathered(r)
		return
	}
	s := e.s
	e.heard = max(e.heard, r.asked)
	e.signs.Hears(s.elapsed())
	switch {
	case r.kind == reqPing:
		e.pinged--
		return
	case r.cxid == xidReplay:
		d := jute.NewDecoder(r.frame)
		if e.rules.Subscribed(r.err, &d) != nil {
			e.forgot = true
			e.lost()
		}
		return
	case r.cxid == xidCatchUp:
		if e.rules.CaughtUp(r.zxid, r.err) != nil {
			e.lost()
		}
		return
	case r.cxid == xidRestore:
		e.restoring = false
		e.rules.Restored(r.zxid)
		e.tellAll(e.rules.Missed())
		if e.rules.Settles() {
			e.settle()
		}
		return
	}
	if len(e.calls) == 0 || int32(e.calls[0].number) != r.cxid || !e.calls[0].sent {
		s.fail("R1", "an edge gets the answer to %d for client %d, and waits for %d requests", r.cxid, e.c.id, len(e.calls))
	}
	call := e.calls[0]
	e.calls = slices.Delete(e.calls, 0, 1)
	if r.zxid < call.seen {
		s.fail("X3", "an edge gets the answer to %d for client %d at %v, after %v", r.cxid, e.c.id, r.zxid, call.seen)
	}
	if e.exact {
		e.rules.Done(&call.rules)
	}
	e.rules.Replied(r.zxid)
	e.tellAll(e.rules.Missed())
	e.rules.Answered(&call.rules, r.err)
	e.answer(call, *r)
	if e.server != nil {
		e.flush()
	}
}

// answer gives the client the answer to a request, when it has those before.
func (e *relay) answer(call *relayCall, rep reply) {
	rep.cxid, rep.number, rep.kind, rep.exact = call.req.cxid, call.number, call.req.kind, e.exact
	if e.queue.Waits(&call.place) {
		e.queue.Keep(&call.place, &rep)
		return
	}
	if call.req.kind == reqRead {
		e.checkRead(call, &rep)
	}
	e.tellReply(rep)
	for _, held := range e.queue.Pop(&call.place) {
		e.tellReply(*held)
	}
}

func (e *relay) tellReply(rep reply) {
	e.untold = slices.DeleteFunc(e.untold, func(call *relayCall) bool { return call.number <= rep.number })
	rep.zxid = e.rules.Header(rep.zxid)
	rep.resumes, e.resumed = e.resumed, false
	e.tell(&rep)
}

// checkRead checks that a read does not show a later write of its client: X4.
func (e *relay) checkRead(read *relayCall, rep *reply) {
	for _, call := range e.untold {
		if call.number <= read.number || !call.req.covered() || !call.changes(read.req.path, read.req.op == jute.OpGetChildren) {
			continue
		}
		if done, ok := e.s.ghost.exactOf(e.asked.session).outcomes[int32(call.number)]; e.exact && ok && done.Code == 0 && done.Zxid <= rep.zxid {
			e.s.fail("X4", "the read %d of client %d shows %v, and its later write %d is at %v", read.number, e.c.id, rep.zxid, call.number, done.Zxid)
		}
	}
}

// changes reports whether a write changes a node, or the list of its children.
func (call *relayCall) changes(path string, list bool) bool {
	d := jute.NewDecoder(call.req.body)
	ops := []jute.MultiOp{{Type: call.req.op}}
	if call.req.op == jute.OpMulti {
		var m jute.MultiRequest
		m.Decode(&d)
		ops = m.Ops
	} else {
		ops[0].Path = d.String()
	}
	return slices.ContainsFunc(ops, func(op jute.MultiOp) bool {
		child := list && jute.Parent(op.Path) == path && (op.Type == jute.OpCreate || op.Type == jute.OpDelete)
		return op.Path == path && !list || child
	})
}

// hears handles the event of a watch.
func (e *relay) hears(r *reply) {
	t := resume.Event{Zxid: r.zxid, WatcherEvent: jute.WatcherEvent{Type: r.event, State: jute.StateSyncConnected, Path: r.path}}
	if t.Zxid == 0 {
		t.Zxid = -1 // as the frame has it
	}
	if e.rules.Hears(t) {
		e.tellAll([]resume.Event{t})
	}
}

// tellAll tells the client events.
func (e *relay) tellAll(events []resume.Event) {
	for _, t := range events {
		e.rules.Told(t)
		e.tell(&reply{event: t.Type, path: t.Path, zxid: max(0, t.Zxid)})
	}
}

// fed handles an event of the feed of a replay.
func (e *relay) fed(r *reply) {
	var head jute.ReplyHeader
	var ev jute.FeedEvent
	d := jute.NewDecoder(r.frame)
	head.Decode(&d)
	ev.Decode(&d)
	credit, all, err := e.rules.Fed(&ev, len(r.frame))
	e.signs.Hears(e.s.elapsed())
	if credit > 0 {
		q := jute.CreditRequest{Feed: resume.Feed, Credit: credit}
		e.send(request{kind: reqFeed, cxid: xidReplay, op: jute.OpCredit, body: q.Append(nil)})
	}
	switch {
	case err != nil:
		e.forgot = true
		e.lost()
	case all:
		e.tellAll(e.rules.Replayed())
		e.settle()
		q := e.rules.Resumed()
		e.send(request{kind: reqFeed, cxid: xidReplay, op: jute.OpUnsubscribe, body: q.Append(nil)})
		e.flush()
	}
}

// tell sends the client something, on its connection with the edge.
func (e *relay) tell(r *reply) {
	r.by, r.attempt = e, 0
	s := e.s
	e.told = s.now
	if s.tracing {
		s.trace(nil, "edge tells client %d: %v", e.c.id, r)
	}
	s.agenda.push(event{at: s.now + 100, kind: evToClient, node: -1, arg: int32(e.c.id), pkt: &packet{rep: *r}})
}

// lost continues on another connection, or ends the client's.
func (e *relay) lost() {
	s := e.s
	s.trace(nil, "an edge has lost the connection %#x for client %d", e.origin, e.c.id)
	e.leave()
	ends := false
	for _, call := range e.calls {
		ends = ends || call.sent && !(call.req.covered() || resume.Again(call.req.wire(false).Op))
		call.before, call.sent = call.before || call.sent, false
	}
	silent := time.Duration(s.now-e.spoke) * time.Microsecond
	switch {
	case ends:
		e.end("a request can't be repeated")
	case !e.rules.Resumes(silent, e.timeout()):
		e.end("the session is not resumed")
	default:
		e.retry()
	}
}

// leave gives up the connection upstream. Its server learns of it soon, or late.
func (e *relay) leave() {
	carried := e.stream != nil
	e.hangUp()
	if e.server == nil {
		return
	}
	if carried {
		e.server, e.origin, e.restoring = nil, 0, false
		return
	}
	s, late := e.s, e.s.transit()
	if s.phase == phaseChaos && s.percent(s.cfg.HangPct) {
		late = s.between(late, s.cfg.SessionMs*1000)
	}
	s.afterPacket(evToServer, e.server, late, &packet{to: e.server.idx, client: e.c.id, req: request{origin: e.origin}})
	e.server, e.origin, e.restoring = nil, 0, false
}

// expired tells the client that its session has ended.
func (e *relay) expired() {
	for _, call := range e.calls {
		rep := reply{kind: call.req.kind, err: jute.ErrSessionExpired, refused: true, session: e.asked.session}
		if call.req.kind == reqClose { // it has ended as asked
			rep.err = 0
		}
		rep.cxid, rep.number = call.req.cxid, call.number
		e.tellReply(rep)
	}
	e.end("the session has expired")
}

// end ends the client's connection. It may if the session has ended or can't be resumed: the server does not offer exactly-once, or has forgotten what
// persistent watches have missed; no server was reached for the session's timeout; a request was under way that can't be repeated; the client was
// silent; or the edge itself has died: X1.
func (e *relay) end(why string) {
	s := e.s
	if e.over {
		return
	}
	silent, timeout := s.now-e.spoke, uint64(e.asked.timeout)*1000
	repeatable := !slices.ContainsFunc(e.calls, func(call *relayCall) bool {
		return !call.req.covered() && !slices.Contains(repeated, call.req.kind)
	})
	may := e.crashed || e.forgot || e.born && !e.exact || silent >= timeout*2/3 || s.now-e.heard >= timeout || !repeatable || !s.ghost.sessions[e.asked.session]
	if !may {
		s.fail("X1", "an edge ends the connection of client %d, whose session %v lives: %s", e.c.id, e.asked.session, why)
	}
	s.stats.RelayEnds++
	e.leave()
	e.forget()
	e.over = true
	e.tell(&reply{closed: true})
}

// repeated are the kinds of requests that an edge can send again, in addition to writes.
var repeated = []reqKind{reqSync, reqRead, reqClose, reqSetWatches}

// leaveEdge ends a client's connection with an edge.
func (s *Sim) leaveEdge(c *client) {
	c.relay.leave()
	c.relay.forget()
	c.relay.over = true
	c.relay = nil
	if c.readOnly && c.session == 0 {
		c.forgetSession() // only this edge has had it
	}
	c.readOnly = false
	c.attempt++
}

// fromEdge handles what comes for a client that is behind an edge, and reports whether there is nothing else to do.
func (s *Sim) fromEdge(c *client, r *reply) bool {
	switch {
	case r.by != c.relay: // from an edge that the client has left, or from a server
		if r.by == nil {
			c.relay.received(r)
		}
		return true
	case r.by == nil:
		return false
	}
	r.attempt = c.attempt
	c.restoring = c.restoring || r.resumes || r.event != 0 && r.zxid == 0
	switch {
	case c.readOnly:
	case r.event != 0:
		c.felt = max(c.felt, r.zxid)
		if r.zxid == 0 {
			s.checkMissed(c, r)
		}
	case s.cfg.HerdPct > 0: // reads are answered between the events of a transaction, if it does not change what they show
	case c.node < 0 || r.closed || r.err == jute.ErrSessionExpired:
	case r.zxid < c.felt-1 || r.zxid < c.felt && (r.kind == reqRead || r.kind == reqSync): // an outcome may come between the events of a transaction
		s.fail("X3", "client %d gets the answer to %d at %v, after an event at %v", c.id, r.cxid, r.zxid, c.felt)
	}
	return false
}

// checkMissed checks that what a one-shot watch has missed is not told again by a persistent one, X5, and notes as of when it is.
func (s *Sim) checkMissed(c *client, r *reply) {
	for i := range c.persistent {
		w := &c.persistent[i]
		if w.next < 0 {
			continue
		}
		for j := range s.ghost.history[w.next:] {
			if e := &s.ghost.history[w.next+j]; e.path == r.path && e.typ == r.event && w.matches(e) {
				s.fail("X5", "client %d is told event %v of %s, as missed, and its persistent watch of %s tells that of %v", c.id, r.event, r.path, w.path, e.zxid)
			}
		}
	}
	for _, w := range c.watches {
		if w.path != r.path || !w.matches(r.event) {
			continue
		}
		for _, e := range s.ghost.events[w.path] {
			if e.zxid > w.since && e.typ == r.event {
				c.felt = max(c.felt, e.zxid)
				break
			}
		}
	}
}

// checkRelayed checks the answer to a write through an edge: X2.
func (s *Sim) checkRelayed(c *client, req *request, r *reply) {
	switch {
	case req.kind == reqClose:
		return // received checks it
	case !req.covered():
		return
	case !r.exact: // the session began without an edge
		c.writes++
		i, ok := s.ghost.index(r.zxid)
		if !ok || s.ghost.commits[i].origin != r.origin || s.ghost.commits[i].cxid != int32(r.number) || s.ghost.commits[i].err != r.err {
			s.fail("X2", "client %d is answered %v with code %d, which is not what its write %d has", c.id, r.zxid, r.err, r.number)
		}
		return
	}
	c.writes++
	done, ok := s.ghost.exactOf(c.session).outcomes[int32(r.number)]
	if !ok || done.Zxid > r.zxid || done.Code != r.err {
		s.fail("X2", "client %d is answered %v with code %d for its write %d, which has the outcome %+v (%v)", c.id, r.zxid, r.err, r.number, done, ok)
	}
	if done.Zxid <= req.floor {
		s.fail("I19", "client %d wrote %v after %v had been answered", c.id, done.Zxid, req.floor)
	}
}

// troubleEdge lets an edge die, hand its clients over to a successor, or lose its connections for a while; or servers be silent.
func (s *Sim) troubleEdge() {
	edge, what := s.rng.IntN(numEdges), s.rng.IntN(8)
	if what == 0 { // nothing gets through
		s.cut[edge] = s.now + s.between(s.cfg.ElectionMs*50, s.cfg.SessionMs*1500)
	}
	if what == 1 && len(s.memories) > 0 {
		for _, t := range s.memories[edge].trees {
			t.unfed()
			t.known = false
		}
	}
	if s.cfg.Carriers > 0 {
		defer s.troubleCarriers(edge, what)
	}
	for _, c := range s.clients {
		e := c.relay
		if e == nil || e.edge != edge || e.over || s.cfg.Carriers > 0 && (what == 3 || what > 4) {
			continue
		}
		switch {
		case what == 1:
			e.crashed = true
			e.end("the edge has died")
		case what == 2:
			e.handOver()
		case what == 3 && e.server != nil:
			e.unheard, e.cutOff = true, s.percent(50)
		case e.server != nil:
			e.lost()
		}
	}
}

// handOver makes the session again from its record, if nothing is under way.
func (e *relay) handOver() {
	if e.server == nil || !e.exact || len(e.calls) > 0 || e.restoring || e.rules.Replaying() || len(e.owed) > 0 || e.rules.Bound {
		return
	}
	e.s.stats.HandOvers++
	last, tail := e.rules.Tail()
	rules := resume.New(e.rules.Shown(), last, slices.Clone(tail))
	for kind, paths := range e.rules.Watches.Paths() {
		for _, path := range paths {
			rules.Watches.Set(resume.Kind(kind), path)
		}
	}
	e.leave()
	e.forget()
	e.rules = rules
	e.retry()
}
