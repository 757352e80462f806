package sim

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/auth"
	"github.com/zkd-project/zkd/server/clients/line"
	"github.com/zkd-project/zkd/server/clients/line/register"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/session"
	"github.com/zkd-project/zkd/server/state"
	"github.com/zkd-project/zkd/server/watch"
)

// conn is a client's connection at a node: the line of servers, whose host it is. It hands the client's requests to
// the line, and the frames that the line sends to the client.
type conn struct {
	line    line.Line
	n       *node
	origin  uint64
	client  int
	via     *carried // that carries it, or nil
	attempt uint32
	asked   []request // not answered, in their order
	refused bool      // the next answer is to a request without a transaction
	opened  bool      // the response to the request to connect has been sent
	opening reply     // that response, while outcomes of writes follow
	follow  int32     // how many do
	killed  bool
	serving bool // a read, in parts
	ending  bool // it ends with what has been sent
	exact   bool // as the response said
	last    jute.Zxid
	fed     [maxFeeds]fedGhost
	views   []*viewGhost

	upgrade *request  // it waits until the session is a global one, or nil
	behind  []request // they came after it
}

// anyone has the identities of all clients.
var anyone = auth.NewCredentials()

// What a line asks of its host. There is one goroutine, and so no lock.
func (c *conn) Lock()                        {}
func (c *conn) Unlock()                      {}
func (c *conn) Operate(*line.Request)        {}
func (c *conn) Left(_, _ int64)              {}
func (c *conn) Ending()                      { c.ending = true }
func (c *conn) Present() *auth.Credentials   { return anyone }
func (c *conn) Held(ids []jute.ID) []jute.ID { return ids }

// Groups has the address of the client: every other one has the same.
func (c *conn) Groups() []string { return []string{addressOf(c.client)} }

func addressOf(client int) string { return strconv.Itoa(client % 2) }

// Decided writes the response, and has the requests handled that wait for the session to be a global one.
func (c *conn) Decided() {
	c.flush()
	if c.upgrade != nil {
		c.n.s.soon(c.n, c.upgraded)
	}
}

// soon schedules something that another goroutine of the node's process would do.
func (s *Sim) soon(n *node, do func()) {
	s.agenda.push(event{at: s.now + s.between(0, 1000), kind: evUndo, node: n.idx, life: n.life, pkt: &packet{undo: do}})
}

// Kill ends the connection, and tells its client. The node forgets it a little later, as a reader that ends does.
func (c *conn) Kill() {
	if c.killed {
		return
	}
	n, s := c.n, c.n.s
	c.killed, c.fed = true, [maxFeeds]fedGhost{}
	c.line.Kill()
	c.tell(&reply{attempt: c.attempt, closed: true})
	s.soon(n, func() { n.forget(c) })
}

// Sent takes a frame that the line sends. The client has it in order.
func (c *conn) Sent(size int) {
	out := c.line.Outbox.Unsent().Last()
	if c.via == nil {
		c.n.s.sent(c.n, c, out[len(out)-size:])
		return
	}
	frames := len(c.via.frames) + 1
	c.n.s.sent(c.n, c, out[len(out)-size:])
	if len(c.via.frames) < frames {
		c.via.frames = append(c.via.frames, message{}) // what follows says more
	}
}

// flush ends a connection whose last frame was sent, and drops what Sent has taken, unless the client does
// not read.
func (c *conn) flush() {
	if s := c.n.s; c.via != nil {
		c.via.flush()
	} else if s.now >= s.clients[c.client].deaf {
		if out := c.line.Outbox.Take(); out != nil {
			out.Release()
		}
	}
	if c.ending {
		c.Kill()
	}
}

// nodeLines is a node as its lines see it.
type nodeLines struct {
	n *node
}

func (v nodeLines) Limits() line.Limits {
	part := 1 + v.n.s.rng.IntN(4)
	return line.Limits{Reply: 1 << 30, LongReply: 1 << 30, Page: 1 << 30, PageNodes: part, Part: part}
}

// Members returns the zxid of the list of members that the node has applied.
func (v nodeLines) Members() jute.Zxid {
	if v.n.state.Members == nil {
		return 0
	}
	return v.n.state.Members.Version
}

func (v nodeLines) NextSession() jute.SessionID { return jute.SessionID(v.n.newOrigin()) }

func (v nodeLines) Submit(subs ...replica.Submission) {
	for _, sub := range subs {
		v.n.s.stats.Again++
		v.n.s.hand(v.n, sub)
	}
	v.n.again = v.n.again || len(subs) > 0
}

func (v nodeLines) Subscribed(*line.Line, bool)                                    { v.n.s.feedSoon(v.n) }
func (v nodeLines) LongReply(*line.Line, *line.Request, string, int, bool)         {}
func (v nodeLines) Served(*line.Line, *line.Request, error)                        {}
func (v nodeLines) ServedPart(*line.Line, *line.Request, *jute.MultiOp, jute.Code) {}
func (v nodeLines) Unanswered(*line.Line, *datatree.Txn, []datatree.Result)        {}
func (v nodeLines) AnswerLost(*datatree.Txn, []datatree.Result)                    {}
func (v nodeLines) ServedLate(*line.Line, *line.Request, *line.Read)               {}
func (v nodeLines) Yield()                                                         {}
func (v nodeLines) ServedAll(int)                                                  {}
func (v nodeLines) Telling(int)                                                    { v.n.s.betweenSlices(v.n) }
func (v nodeLines) Fired(*datatree.Event, int)                                     {}
func (v nodeLines) Established(*line.Line)                                         {}
func (v nodeLines) Notified(*line.Line, int)                                       { v.n.s.stats.Events++ }
func (v nodeLines) Dirty(l *line.Line)                                             { l.Host().(*conn).flush() }
func (v nodeLines) Answered(*line.Line, *line.Request, *replica.Order, jute.Code)  {}

// Slow checks that a line that ends for this reason has too much output: B4.
func (v nodeLines) Slow(l *line.Line, what line.Output) {
	v.n.s.stats.Slow++
	if _, _, most := l.Outbox.Unsent().Sizes(); l.Outbox.Unsent().Len()-most <= v.n.s.cfg.Unread {
		v.n.s.fail("B4", "server %d ends a line with %d bytes of output: %d", v.n.id, l.Outbox.Unsent().Len(), what)
	}
}

// checkUnread checks that a line had room for an event that it sends: B4.
func (s *Sim) checkUnread(c *conn, frame []byte) {
	_, _, most := c.line.Outbox.Unsent().Sizes()
	if before := c.line.Outbox.Unsent().Len() - 4 - len(frame) - most; before > s.cfg.Unread {
		s.fail("B4", "server %d sends an event to client %d, which has not taken %d bytes", c.n.id, c.client, before)
	}
}

// Answering notes whether there is a transaction.
func (v nodeLines) Answering(l *line.Line, req *line.Request, o *replica.Order, txn *datatree.Txn, _ []datatree.Result) {
	l.Host().(*conn).refused = txn == nil && o.Code != 0 && !req.Own()
	if txn == nil {
		v.n.s.stats.Syncs++
	}
}

// Ends checks why a line ends.
func (v nodeLines) Ends(l *line.Line, why line.Ending, req *line.Request, o *replica.Order) {
	switch why {
	case line.Misfit:
		v.n.s.fail("R1", "server %d applies %v for a connection that waits for %+v", v.n.id, o.Zxid, req)
	case line.LostRefusal:
		v.n.s.stats.LostRefusal++
	}
}

// newLines begins the lines of a process, whose tree is there.
func (s *Sim) newLines(n *node) {
	n.lines = &line.Lines{
		Server: nodeLines{n}, State: &state.State{Tree: n.tree, Watches: n.watches}, Schemes: s.schemes, Sessions: n.tracker,
		Locals: session.NewTracker(int64(s.cfg.SessionMs / 10)), Register: n.register,
		Views: line.Views{Lock: noLock{}}, History: n.changes, Places: n.places, Unread: s.cfg.Unread,
		LocalSessions: s.cfg.Local > 0, Upgrading: s.cfg.Local > 1,
	}
	n.lines.State.Begin([32]byte{})
	n.lines.Views.Limits = s.viewLimits()
	n.lines.State.SetApplied(n.applied)
	n.answers = n.lines.NewAnswers(nodeLines{n})
}

// noLock is a lock in a program with one goroutine.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

func (n *node) localTime() time.Duration { return time.Duration(n.localMs()) * time.Millisecond }

func (n *node) conn(origin uint64) *conn {
	if l := n.register.Get(origin); l != nil {
		return l.Host().(*conn)
	}
	return nil
}

// serve accepts a client's request.
func (s *Sim) serve(n *node, client int, req *request) {
	if s.tracing && req.kind != 0 {
		s.trace(n, "client %d asks: %v", client, req)
	}
	c := n.conn(req.origin)
	if req.kind == 0 {
		if c != nil {
			n.forget(c)
		}
		return
	}
	switch opens := req.kind == reqCreateSession || req.kind == reqResume; {
	case opens && n.service != 0:
		s.openConn(n, client, req)
		return
	case opens || c == nil:
		s.refuse(n, client, req)
		return
	case c.line.Outbox.Ends():
		return
	case req.kind == reqGathered:
		r := &reply{kind: req.kind, origin: c.origin, attempt: c.attempt, zxid: c.last, asked: req.sent}
		if !s.gathered(n, c, req.sent) {
			r.err = jute.ErrUnimplemented
		}
		s.toClient(n, c.client, r)
		return
	}
	if c.upgrade != nil {
		c.behind = append(c.behind, *req)
		return
	}
	s.handle(n, c, req)
}

// handle handles a request on its turn.
func (s *Sim) handle(n *node, c *conn, req *request) {
	s.arrive(n, c)
	r := req.wire(c.exact)
	r.Received = n.localTime()
	if err := c.line.Accept(&r); err != nil {
		s.fail("R1", "server %d ends the connection of client %d at %v: %v", n.id, c.client, req, err)
	}
	c.asked = append(c.asked, *req)
	if c.line.WayOf(&r, false) == line.Submit {
		if c.line.Upgrades(&r) {
			s.upgradeFor(c, *req, &r)
		} else {
			s.submitTo(n, c, req, &r)
		}
		return
	}
	if c.line.Waiting.Len() == 0 || !c.line.Queue(r) {
		c.serving = true
		defer func() { c.serving = false }()
		for read := (line.Read{More: true}); read.More && !c.killed; {
			read = line.Read{}
			if !c.line.Serve(&r, r.Received, &read) {
				s.fail("R1", "server %d does not know %v", n.id, req)
			}
			c.flush()
			if read.More && n.lines.State.Slicing() == nil && s.percent(50) {
				s.applyAll(n) // the tree is not locked
			}
		}
	}
}

// betweenSlices has clients of a node heard while a transaction is applied and the tree is free: they read what does not
// change, or leave. A leader evaluates what waits.
func (s *Sim) betweenSlices(n *node) {
	if s.cfg.HerdPct == 0 {
		return
	}
	if s.percent(50) && s.propose(n) {
		s.stats.ProposedBetween++
		n.again = true
	}
	heap := s.agenda.heap
	next := make([]int, len(s.clients)) // in heap, and 1 more: the next packet of each client
	for i := range heap {
		if e := &heap[i]; e.kind == evToServer && e.node == n.idx {
			if at := &next[e.pkt.client]; *at == 0 || e.before(&heap[*at-1]) {
				*at = i + 1
			}
		}
	}
	for _, at := range next {
		if at == 0 || s.percent(30) {
			continue
		}
		e := &heap[at-1]
		p := e.pkt
		if c := n.conn(p.req.origin); p.req.kind != 0 {
			if p.req.kind != reqRead || c == nil || c.line.Outbox.Ends() || c.upgrade != nil || c.serving {
				continue
			}
			if r := p.req.wire(c.exact); r.ShowsPart(n.tree) {
				continue // it waits
			}
		}
		e.kind, e.node, e.pkt = evUndo, -1, &packet{undo: func() {}}
		s.stats.Between++
		s.serve(n, p.client, &p.req)
		return
	}
}

// submitTo gives a request of a connection to the leader.
func (s *Sim) submitTo(n *node, c *conn, req *request, r *line.Request) {
	if !replica.Ordered(r.Op) {
		s.stats.Fences++
	}
	sub := c.line.Submit(r)
	s.hand(n, sub)
	if sub.Kind == replica.Write {
		s.ghost.asks(c.origin, ask{req.cxid, bytes.Equal(req.body, malformed) || isFatal(req.body)})
	}
	if n.lines.State.Slicing() != nil {
		n.again = true // the applier is in the middle of an entry
		return
	}
	s.takeOutputs(n)
}

// arrive records that a client was heard of.
func (s *Sim) arrive(n *node, c *conn) {
	last := c.line.Session.Arriving()
	c.line.Arrived(last, n.localTime(), n.rep.AnswersUntil())
	s.heard(n, c)
}

// heard tells the ghost that the client was heard of.
func (s *Sim) heard(n *node, c *conn) {
	if n.leading() {
		s.noteTouch(n, c.line.SessionID(), c.line.Session.TimeoutMs(), s.now)
	}
}

// gathered handles a ping that an edge has gathered with others, and reports whether it was enough.
func (s *Sim) gathered(n *node, c *conn, sent uint64) bool {
	if c.upgrade != nil || !c.line.Pinged(n.localTime(), n.rep.AnswersUntil()) {
		return false
	}
	s.stats.Gathered++
	s.heard(n, c)
	s.checkOwner(n, c, &reply{kind: reqGathered, zxid: c.last})
	s.promise(n, c, reqPing, sent)
	return true
}

var (
	rootExists = (&jute.PathWatchRequest{Path: "/"}).Append(nil)
	rootSync   = (&jute.SyncRequest{Path: "/"}).Append(nil)
)

// wire returns the request as its frame has it.
func (r *request) wire(exactly bool) line.Request {
	w := line.Request{Op: r.op, Xid: r.cxid, Auth: r.auth, Body: r.body}
	switch {
	case r.kind == reqPing:
		w.Op, w.Xid = jute.OpPing, jute.XidPing
	case r.kind == reqSync:
		w.Op, w.Body = jute.OpSync, rootSync
	case r.kind == reqSetWatches:
		w.Op, w.Body = jute.OpSetWatches2, r.restore.Append2(nil)
	case r.kind == reqRead && r.path == "":
		w.Op, w.Body = jute.OpExists, rootExists
	case r.kind == reqRead && r.op == jute.OpAddWatch:
		mode := jute.AddPersistent
		if r.mode == watch.PersistentRecursive {
			mode = jute.AddPersistentRecursive
		}
		w.Body = (&jute.AddWatchRequest{Path: r.path, Mode: mode}).Append(nil)
	case r.kind == reqRead:
		w.Body = (&jute.PathWatchRequest{Path: r.path, Watch: r.watch}).Append(nil)
	case exactly && r.covered():
		w.Body = binary.BigEndian.AppendUint64(slices.Clone(r.body), uint64(r.confirmed))
	}
	return w
}

// features are the extensions that clients ask for.
const features = jute.FeatureFeed | jute.FeaturePaging | jute.FeatureOperations

// openConn begins a connection, with a new or an existing session.
func (s *Sim) openConn(n *node, client int, req *request) {
	c := &conn{n: n, origin: n.newOrigin(), client: client, via: req.via, attempt: req.attempt, asked: []request{*req}}
	c.line.Begin(n.lines, c, c.origin)
	asked := jute.ExtensionRequest{Features: features, Confirmed: req.confirmed}
	if req.exact {
		asked.Features |= jute.FeatureExactlyOnce
	}
	c.line.Extend(asked)
	admission := line.Admission{Service: n.service, Serving: n.service != 0, ID: req.session, Seen: req.seen}
	if n.lines.Admit(&c.line, &admission) != nil {
		s.refuse(n, client, req)
		return
	}
	if req.via != nil {
		req.via.conn = c
	}
	n.register.Add(&c.line, "", register.Direct, register.Most{})
	n.conns = append(n.conns, c)
	if req.ahead() {
		s.ghost.ahead[c.origin] = true
	}
	id, resume := req.session, req.kind == reqResume
	if !resume {
		id = jute.SessionID(c.origin)
	}
	c.line.Session.SetTimeout(req.timeout)
	if c.line.Locally(req.session) {
		s.openLocal(c, req)
		return
	}
	s.hand(n, c.line.Open(id, resume, true, n.localTime()))
	s.takeOutputs(n)
}

// sent handles a frame that a line sends.
func (s *Sim) sent(n *node, c *conn, frame []byte) {
	d := jute.NewAliasDecoder(frame)
	switch {
	case !c.opened && c.follow == 0:
		s.sentResponse(n, c, d)
		return
	case c.follow > 0:
		var h jute.ReplyHeader
		h.Decode(&d)
		r := &c.opening
		r.outcomes = append(r.outcomes, datatree.Outcome{Number: int64(h.Xid), Zxid: h.Zxid, Code: h.Err, Body: string(d.Rest())})
		if c.follow--; c.follow == 0 {
			s.sentOpening(n, c)
		}
		return
	}
	var h jute.ReplyHeader
	h.Decode(&d)
	switch h.Xid {
	case jute.XidNotification:
		var e jute.WatcherEvent
		e.Decode(&d)
		s.checkUnread(c, frame)
		c.tell(&reply{attempt: c.attempt, event: e.Type, path: strings.Clone(e.Path), zxid: max(0, h.Zxid), level: s.levelOf(c)})
	case jute.XidFeed:
		s.sentFeed(n, c, frame)
	default:
		s.sentReply(n, c, &h, d.Rest())
	}
}

// sentResponse handles the response to a request to connect.
func (s *Sim) sentResponse(n *node, c *conn, d jute.Decoder) {
	var p jute.ConnectResponse
	var ext jute.ExtensionResponse
	p.Decode(&d)
	ext.Decode(&d)
	r := &c.opening
	*r = reply{kind: c.asked[0].kind, origin: c.origin, attempt: c.attempt, cxid: c.asked[0].cxid, session: p.SessionID, timeout: p.TimeoutMs, zxid: n.applied}
	if p.SessionID == 0 {
		r.err, r.session, r.timeout = jute.ErrSessionExpired, c.asked[0].session, c.asked[0].timeout
	}
	c.exact = ext.Features&jute.FeatureExactlyOnce != 0
	r.exact, r.done, r.features = c.exact, ext.Done, ext.Features
	if c.follow = ext.Replies; c.follow == 0 {
		s.sentOpening(n, c)
	}
}

// sentOpening handles the end of that response.
func (s *Sim) sentOpening(n *node, c *conn) {
	r := &c.opening
	c.opened = true
	if c.exact {
		s.ghost.exactConns[c.origin] = true
	}
	s.answered(n, c, r)
	if r.err == 0 && s.clients[c.client].attempt == c.attempt && !c.line.Session.Local() {
		s.ghost.resumed(r.session, c.origin)
	}
	s.promised(n, c, r)
	c.tell(r)
}

// answered checks an answer: S7, S8.
func (s *Sim) answered(n *node, c *conn, r *reply) {
	c.last = max(c.last, r.zxid)
	s.checkOwner(n, c, r)
	if r.err == 0 {
		s.checkAhead(n, c.origin)
	}
}

// promised takes the oldest request as answered.
func (s *Sim) promised(n *node, c *conn, r *reply) {
	sent := c.asked[0].sent
	c.asked = slices.Delete(c.asked, 0, 1)
	if r.err == 0 && r.kind != reqClose {
		s.promise(n, c, r.kind, sent)
	}
}

// sentReply handles a reply.
func (s *Sim) sentReply(n *node, c *conn, h *jute.ReplyHeader, body []byte) {
	if len(c.asked) == 0 {
		s.fail("R1", "server %d answers %d to client %d, which waits for nothing", n.id, h.Xid, c.client)
	}
	req := &c.asked[0]
	r := reply{kind: req.kind, origin: c.origin, attempt: c.attempt, cxid: h.Xid, session: c.line.SessionID(), timeout: c.line.Session.TimeoutMs(),
		zxid: h.Zxid, err: h.Err, refused: c.refused, path: req.path, exists: h.Err == 0, local: c.line.Session.Local(), asked: req.sent}
	c.refused = false
	if h.Xid == jute.XidPing && req.kind == reqPing {
		r.cxid = req.cxid
	}
	switch req.kind {
	case reqFeed:
		s.sentFeedReply(n, c, req, h.Err)
		r.frame = bytes.Clone(body)
	case reqView:
		s.sentPage(n, c, req, &r, body)
	}
	r.level = s.levelOf(c)
	s.answered(n, c, &r)
	s.promised(n, c, &r)
	c.tell(&r)
}

// checkOwner checks that a server that answers a connection does not know that another one owns
// the session, and that the history says so of a connection that is told that it has the
// session: S7.
func (s *Sim) checkOwner(n *node, c *conn, r *reply) {
	if c.line.Session.Local() {
		s.checkLocal(n, c)
		return
	}
	owner := n.tree.SessionOwner(c.line.SessionID())
	opens := r.kind == reqCreateSession || r.kind == reqResume
	switch {
	case r.err != 0 || owner == c.origin:
	case owner != 0 && r.kind != reqClose:
		s.fail("S7", "server %d answers connection %#x (%v), and %#x owns its session %v", n.id, c.origin, r, owner, c.line.SessionID())
	case opens && s.cfg.MixedMs == 0:
		s.fail("S7", "server %d tells connection %#x that it has session %v, which has no owner", n.id, c.origin, c.line.SessionID())
	}
}

// checkAhead checks that nothing is done for a connection that is ahead of all servers: S8.
func (s *Sim) checkAhead(n *node, origin uint64) {
	if s.ghost.ahead[origin] {
		s.fail("S8", "server %d gives a session to connection %#x, which has seen what nobody has", n.id, origin)
	}
}

// tell sends the client a reply.
func (c *conn) tell(r *reply) {
	if c.via == nil {
		c.n.s.toClient(c.n, c.client, r)
		return
	}
	if s := c.n.s; s.tracing {
		s.trace(c.n, "answer client %d: %v", c.client, r)
	}
	c.via.tell(r)
}

// refuse ends a connection that has no session.
func (s *Sim) refuse(n *node, client int, req *request) {
	if req.via != nil {
		req.via.close()
		return
	}
	s.toClient(n, client, &reply{kind: req.kind, attempt: req.attempt, closed: true})
}

// toClient sends a reply, which a client that does not read gets later.
func (s *Sim) toClient(n *node, client int, r *reply) {
	if s.tracing {
		s.trace(n, "answer client %d: %v", client, r)
	}
	s.agenda.push(event{at: max(s.now, s.clients[client].deaf) + 100, kind: evToClient, node: -1, arg: int32(client), pkt: &packet{from: n.idx, rep: *r}})
}

// forget removes a connection that has ended.
func (n *node) forget(c *conn) {
	i := slices.Index(n.conns, c)
	if i < 0 {
		return
	}
	n.conns = slices.Delete(n.conns, i, i+1)
	c.killed = true
	c.line.Forget()
	n.lines.Views.DropLine(&c.line)
	if w, ok := c.line.WatchHandle(); ok {
		n.watches.Drop(w)
	}
	n.register.Remove(&c.line, "", register.Direct)
}

// noteSessions notes what a transaction says of sessions.
func (s *Sim) noteSessions(n *node, txn *datatree.Txn) {
	for i := range txn.Ops {
		switch txn.Ops[i].Kind {
		case datatree.OpCreateSession:
			if n.leading() {
				s.noteHeard(n, txn.Session, s.now)
			}
		case datatree.OpSetTimeout:
			s.stats.Renegotiated++
		case datatree.OpSetOwner:
			s.stats.Owners++
			s.checkAhead(n, txn.Origin)
		case datatree.OpCloseSession:
			delete(n.heard, txn.Session)
		}
	}
}
