package sim

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/watch"
)

// reqKind is the kind of a client's request.
type reqKind uint8

const (
	reqCreateSession reqKind = iota + 1
	reqResume
	reqWrite
	reqSync
	reqRead
	reqPing
	reqClose
	reqSetWatches
	reqReconfig
	reqFeed
	reqView
	reqGathered // a ping that an edge has gathered with others
)

// request is a request of a client.
type request struct {
	kind    reqKind
	origin  uint64 // the connection, as numbered by its node; 0 before
	attempt uint32 // the client's attempt to connect
	cxid    int32
	session jute.SessionID
	seen    jute.Zxid // highest zxid that the client has seen
	floor   jute.Zxid // ghost: highest zxid that any client had seen
	sent    uint64    // ghost: time of sending, µs
	timeout int32     // asked for with reqCreateSession and reqResume, ms
	op      jute.OpCode
	body    []byte
	path    string     // of a read
	watch   bool       // the read sets a watch
	mode    watch.Mode // of the watch that an addWatch request sets
	restore *jute.SetWatchesRequest
	feed    *clientFeed // that it is about
	auth    []jute.ID

	via       *carried // what it came by at its server, or nil
	exact     bool     // with reqCreateSession and reqResume: the client wants exactly-once
	confirmed int64    // of a write of an exactly-once session; with exact also here
}

var reqNames = [...]string{"", "create session", "resume", "write", "sync", "read", "ping", "close", "set watches", "reconfig", "feed", "page", "gathered ping"}

func (r *request) String() string {
	switch r.kind {
	case reqCreateSession, reqResume:
		return fmt.Sprintf("%s %v, timeout %d", reqNames[r.kind], r.session, r.timeout)
	case reqWrite, reqFeed:
		return fmt.Sprintf("%v, cxid %d", r.op, r.cxid)
	}
	return fmt.Sprintf("%s, cxid %d", reqNames[r.kind], r.cxid)
}

func (r *reply) String() string {
	switch {
	case r.closed:
		return "the connection ends"
	case r.kind == 0 && r.frame != nil:
		return fmt.Sprintf("an event of a feed, %d bytes", len(r.frame))
	case r.event != 0:
		return fmt.Sprintf("event %v of %s, zxid %v", r.event, r.path, r.zxid)
	case r.kind == reqCreateSession || r.kind == reqResume:
		return fmt.Sprintf("%s %v, timeout %d, error %d", reqNames[r.kind], r.session, r.timeout, r.err)
	}
	return fmt.Sprintf("%s, cxid %d, zxid %v, error %d", reqNames[r.kind], r.cxid, r.zxid, r.err)
}

// reply is a node's answer.
type reply struct {
	kind    reqKind
	origin  uint64
	attempt uint32
	cxid    int32
	session jute.SessionID
	timeout int32     // of the session, ms
	zxid    jute.Zxid // of the transaction, or the zxid that the node has applied
	err     jute.Code
	closed  bool // the connection has ended
	refused bool // there is no transaction
	path    string
	exists  bool           // of a read: the node exists
	event   jute.EventType // a watch event, which is no reply; at zxid 0 it is one that the client had missed

	frame []byte     // an event of a feed, a page, or the answer to subscribe
	view  *viewGhost // ghost: of a page
	level uint8      // ghost: bits of the feeds that have sent everything

	local     bool // ghost: the session is
	displaced bool // ghost: of the last event of a feed: another one has its place

	// Of an answer to reqCreateSession and reqResume: exactly-once is granted.
	exact    bool
	done     int64
	outcomes []datatree.Outcome
	features jute.Features

	asked uint64 // ghost: when the request was sent, µs

	// Of what an edge tells a client.
	by       *relay
	number   int64 // ghost: of the request, in the session
	resumes  bool  // ghost: it is the first answer on another connection upstream
	readOnly bool  // of a read-only session
}

// client is a model of a ZooKeeper client: one session at a time, kept across connections
// to any server.
type client struct {
	id         int
	session    jute.SessionID
	timeout    int32 // of the session, as told to the client, ms
	seen       jute.Zxid
	node       int8 // the node it is connected to, or -1
	origin     uint64
	attempt    uint32
	asked      uint64 // when it began to connect, or sent the oldest request
	cxid       int32
	inFlight   []request // sent and not answered
	change     *change   // of the members, that it is about to ask for
	retires    bool      // it is about to retire the ensemble
	stopped    bool
	watches    []clientWatch
	persistent []persistentWatch
	restoring  bool      // the watches are not restored yet on this connection
	told       jute.Zxid // by the last answer: all events up to there have come
	writes     uint64    // answered
	exact      bool      // the session, and so its connections, are exactly-once
	under      []request // of earlier connections, not decided
	feeds      []*clientFeed
	view       clientView
	deaf       uint64 // until when it reads and sends nothing, µs

	readOnly bool      // its session is a read-only one, of the edge
	relay    *relay    // its connection with an edge, or nil
	felt     jute.Zxid // of the newest event on that
}

// malformed is the body of a write that is refused.
var malformed = []byte{0, 0}

var openACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}

// clientTurn runs a client's turn.
func (s *Sim) clientTurn(c *client) {
	us := s.cfg.ThinkUs
	if s.phase != phaseChaos {
		us = max(us, s.cfg.SessionMs*50, s.windowUs()*uint64(s.cfg.Clients)) // even the smallest windows must let learners catch up
	}
	if s.cfg.DozePct > 0 && s.phase == phaseChaos && s.percent(s.cfg.DozePct) {
		us = max(us, s.cfg.SessionMs*1000, uint64(c.timeout)*1000) // it may come in time, or too late
	}
	s.agenda.push(event{at: s.now + s.between(us/2, us*3/2) + 1, kind: evClient, node: -1, arg: int32(c.id)})
	if c.stopped || s.now < c.deaf {
		return
	}
	if s.phase == phaseChaos && s.cfg.DeafPct > 0 && c.id%2 == 1 && s.percent(s.cfg.DeafPct) {
		s.deafen(c)
	}
	if s.phase == phaseChaos && s.cfg.AheadPct > 0 && s.percent(s.cfg.AheadPct) {
		s.connectAhead(c)
	}
	if c.relay != nil && !c.readOnly {
		c.relay.pings()
	}
	patience := s.cfg.SessionMs * 1000 / 2
	if c.relay != nil && c.node >= 0 {
		patience *= 8 // the edge knows better
	}
	switch {
	case c.node < 0 && (c.attempt == 0 || s.now-c.asked > patience):
		if s.endsRetirement() {
			c.forgetSession() // a retired ensemble resumes none
		}
		s.connect(c)
	case c.node < 0:
	case len(c.inFlight) > 0 && s.now-c.asked > patience:
		s.lostConn(c)
	case s.phase == phaseChaos && s.percent(s.cfg.MovePct):
		s.lostConn(c)
	case len(c.under) > 0: // these come first
	case c.id == 0 && s.cfg.Loud > 0 && s.phase == phaseChaos:
		for len(c.inFlight) < s.cfg.Loud {
			s.sendRequest(c)
		}
	case len(c.inFlight) < s.cfg.Pipeline:
		s.sendRequest(c)
	}
}

// windowUs is what a learner takes at most, after the chaos, for a window that holds one entry: a read of the leader's log, the way
// there and back, and a sync. 0 means that windows are large. While clients write as fast, a learner stays as far behind as it is, and
// each renewal of the epoch moves what it must have to follow.
func (s *Sim) windowUs() uint64 {
	if s.cfg.WindowBytes == 0 {
		return 0
	}
	return min(s.cfg.ReadUs, 200) + 2*min(s.cfg.NetUs*3/2, s.cfg.ElectionMs*25) + min(s.cfg.FsyncUs*2, s.cfg.ElectionMs*25)
}

// deafen lets a client read nothing for a while: what servers send it stays in their buffers.
func (s *Sim) deafen(c *client) {
	s.stats.Deaf++
	us := s.between(s.cfg.SessionMs*50, s.cfg.SessionMs*1500)
	c.deaf = s.now + us
	s.afterUndo(us, func() {
		s.listens(c)
		for _, n := range s.nodes {
			for _, open := range slices.Clone(n.conns) {
				if open.client == c.id {
					open.flush()
				}
			}
		}
	})
}

// connect tries to connect to a random node.
func (s *Sim) connect(c *client) {
	c.attempt++
	c.asked = s.now
	req := request{kind: reqCreateSession, attempt: c.attempt, timeout: s.drawTimeout()}
	if c.session != 0 {
		req.kind, req.session, req.seen = reqResume, c.session, c.seen
		s.relinquish(c.session, req.timeout)
	}
	req.floor, req.sent = s.ghost.acked, s.now
	if c.relay != nil {
		s.leaveEdge(c)
	}
	if s.behindEdge(c) && s.percent(90) {
		s.viaEdge(c, req)
		return
	}
	req.attempt = c.attempt
	req.exact, req.confirmed = s.wantsExact(c), c.confirmed()
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	if s.phase == phaseLive {
		n = s.nodes[s.core[s.rng.IntN(len(s.core))]]
	}
	s.afterPacket(evToServer, n, s.between(10, 500), &packet{to: n.idx, client: c.id, req: req})
}

// transit is how long a request takes to a server, in µs. If transactions are applied in slices, others are to arrive between these.
func (s *Sim) transit() uint64 {
	if s.cfg.HerdPct > 0 {
		return max(100, min(2*s.cfg.ThinkUs, s.cfg.SessionMs*20))
	}
	return 100
}

// connectAhead resumes the session of a client on another connection, with a zxid that is ahead of
// all servers. That is refused, and the client notices nothing.
func (s *Sim) connectAhead(c *client) {
	if c.session == 0 {
		return
	}
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	req := request{kind: reqResume, session: c.session, timeout: s.drawTimeout(), seen: math.MaxInt64, sent: s.now}
	s.stats.Ahead++
	s.afterPacket(evToServer, n, s.between(10, 500), &packet{to: n.idx, client: c.id, req: req})
}

// ahead reports whether the request is one of connectAhead.
func (r *request) ahead() bool { return r.seen == math.MaxInt64 }

// drawTimeout returns a timeout to ask for, in ms.
func (s *Sim) drawTimeout() int32 {
	if s.cfg.Timeouts > 1 {
		return int32(s.cfg.SessionMs) * int32(1+s.rng.IntN(s.cfg.Timeouts))
	}
	return int32(s.cfg.SessionMs)
}

func (s *Sim) sendRequest(c *client) {
	c.cxid++
	req := request{origin: c.origin, attempt: c.attempt, cxid: c.cxid, session: c.session, seen: c.seen, floor: s.ghost.acked, sent: s.now}
	req.auth = c.address()
	if c.readOnly {
		s.chooseAway(c, &req)
	} else if !s.chooseRetirement(c, &req) && !s.chooseChange(c, &req) && !s.chooseFeed(c, &req) && !s.chooseView(c, &req) {
		s.choose(c, &req)
	}
	s.number(c, &req)
	s.ask(c, req)
}

// ask sends a request on a client's connection.
func (s *Sim) ask(c *client, req request) {
	if len(c.inFlight) == 0 {
		c.asked = s.now
	}
	if e := c.relay; e != nil {
		s.afterUndo(s.transit(), func() { e.asks(req) })
	} else {
		s.afterPacket(evToServer, s.nodes[c.node], s.transit(), &packet{to: c.node, client: c.id, req: req})
	}
	if c.relay == nil || req.kind != reqPing { // an edge answers those itself
		c.inFlight = append(c.inFlight, req)
	}
}

// address returns where a client is: the first one alone, and all others together.
func (c *client) address() []jute.ID { return addresses[min(c.id, 1)] }

var addresses = [...][]jute.ID{{{Scheme: "ip", ID: "10.0.0.1"}}, {{Scheme: "ip", ID: "10.0.0.2"}}}

// choose draws a client's next request.
func (s *Sim) choose(c *client, req *request) {
	if s.cfg.Cached > 0 && s.phase == phaseChaos && s.behindEdge(c) && s.percent(50+49*(c.id%2)) { // some do little else
		req.kind = reqRead
		s.chooseOneShot(c, req)
		req.watch = req.watch && s.percent(s.cfg.WatchPct)
		return
	}
	d := s.rng.IntN(100)
	for i := range c.inFlight {
		if c.inFlight[i].kind == reqSync && c.id%2 == 0 {
			d %= 35 // no writes: requests after a sync must not be answered before it either
		}
	}
	switch {
	case d < 10:
		req.kind = reqPing
	case d < 25:
		req.kind = reqRead
		if s.percent(s.cfg.WatchPct) {
			s.chooseWatch(c, req)
		}
	case d < 35:
		req.kind = reqSync
	case d < 35+s.cfg.ClosePct:
		req.kind, req.op = reqClose, jute.OpCloseSession
	default:
		req.kind = reqWrite
		s.chooseWrite(req)
	}
}

func (s *Sim) chooseWrite(req *request) {
	if s.percent(s.cfg.GuardPct) {
		s.chooseGuarded(req)
		return
	}
	if s.cfg.TreePct > 0 && s.percent(s.cfg.TreePct) {
		s.chooseOperations(req)
		return
	}
	if s.cfg.Feeds+s.cfg.Streams+s.cfg.Views > 0 && s.percent(20) {
		s.chooseChanges(req)
		return
	}
	path := s.paths[s.rng.IntN(len(s.paths))]
	version := int32(-1)
	if s.percent(30) {
		version = int32(s.rng.IntN(4))
	}
	if s.cfg.FatalPct > 0 && s.percent(s.cfg.FatalPct) {
		s.chooseFatal(req)
		return
	}
	if s.percent(s.cfg.BadPct) {
		req.op, req.body = jute.OpSetData, malformed
		return
	}
	op := jute.MultiOp{Type: jute.OpSetData, Path: path, Version: version}
	switch s.rng.IntN(10) {
	case 0, 1, 2, 3:
		op.Data = strconv.AppendUint(nil, s.rng.Uint64()>>40, 36)
		if s.percent(s.cfg.BigPct) {
			op.Data = append(op.Data, make([]byte, s.cfg.BigBytes)...)
		}
	case 4, 5:
		op.Type, op.ACL = jute.OpCreate, openACL
		if s.cfg.Capacity > 0 {
			op.Data = make([]byte, s.rng.IntN(s.cfg.BigBytes+1))
		}
	case 6, 7:
		op.Type, op.ACL, op.Mode = jute.OpCreate, openACL, jute.ModeEphemeral
	case 8:
		op.Type = jute.OpDelete
	case 9:
		other := op
		other.Path = s.paths[s.rng.IntN(len(s.paths))]
		op.Type, op.ACL, op.Mode = jute.OpCreate, openACL, jute.ModeEphemeral
		m := jute.MultiRequest{Ops: []jute.MultiOp{op, other}}
		req.op, req.body = jute.OpMulti, m.Append(nil)
		return
	}
	req.op, req.body = op.Type, op.Append(make([]byte, 0, 64))
}

// received handles a reply.
func (s *Sim) received(c *client, r *reply) {
	if (c.relay != nil || r.by != nil) && s.fromEdge(c, r) {
		return
	}
	if r.attempt != c.attempt {
		return // from a connection that the client has given up
	}
	if r.closed {
		s.lostConn(c)
		return
	}
	switch {
	case r.kind == 0 && r.frame != nil:
		s.gotChanges(c, r)
		return
	case r.event != 0:
		s.checkFed(c, r)
		s.gotEvent(c, r)
		return
	case r.kind == reqCreateSession || r.kind == reqResume:
		s.connected(c, r)
		return
	}
	if len(c.inFlight) == 0 || c.inFlight[0].cxid != r.cxid {
		s.fail("R1", "client %d gets the answer to %d, waits for %v", c.id, r.cxid, c.inFlight)
	}
	req := c.inFlight[0]
	c.inFlight = append(c.inFlight[:0], c.inFlight[1:]...)
	c.asked = s.now
	s.checkReply(c, &req, r)
	s.checkWatches(c, r.zxid)
	s.checkFed(c, r)
	s.gotFeedReply(c, &req, r)
	if req.kind == reqView {
		s.gotPage(c, r)
	}
	c.restored()
	c.told = max(c.told, r.zxid)
	if !r.refused || !r.readOnly {
		s.noteWatch(c, &req, r)
	}
	if r.readOnly {
		c.unpersist()
	}
	c.seen = max(c.seen, r.zxid)
	s.ghost.acked = max(s.ghost.acked, r.zxid)
	switch {
	case r.err == jute.ErrSessionMoved:
		s.lostConn(c)
	case req.kind == reqClose || r.err == jute.ErrSessionExpired:
		if !r.local && s.ghost.lives(c.session, req.sent) {
			s.fail("S4", "client %d is told that its session %v has ended; it has not", c.id, c.session)
		}
		s.lostConn(c)
		c.forgetSession()
	}
	s.resend(c)
}

// checkReply checks a reply against the committed sequence: I9, I19.
func (s *Sim) checkReply(c *client, req *request, r *reply) {
	s.stats.Answered++
	if r.zxid < c.seen {
		s.fail("I19", "client %d sees %v after %v", c.id, r.zxid, c.seen)
	}
	if !r.refused && !r.readOnly {
		s.checkAnsweredRetired(c, req, r.zxid)
	}
	switch {
	case r.readOnly:
		s.checkAway(c, req, r)
	case r.refused:
		s.stats.Refused++
		if frees := req.op == jute.OpDelete || req.kind == reqClose; frees && r.err == jute.ErrNotReadOnly && s.cfg.Faults[FaultFull] == 0 {
			s.fail("M3", "client %d is refused %v for want of memory, which that frees", c.id, req)
		}
		if r.err == jute.ErrSystemError && !isFatal(req.body) {
			s.fail("Q1", "client %d is told that request %d can't be evaluated: %v", c.id, r.cxid, req)
		}
		if r.err == jute.ErrMarshalling && !bytes.Equal(req.body, malformed) {
			s.fail("R1", "client %d is told that request %d can't be decoded: %v", c.id, r.cxid, req)
		}
	case req.kind == reqReconfig && r.err == 0:
		s.checkChanged(c, req, r)
	case req.kind == reqClose && r.local:
	case r.by != nil && req.kind != reqSync:
		s.checkRelayed(c, req, r)
	case req.kind == reqWrite || req.kind == reqClose || req.kind == reqReconfig:
		c.writes++
		i, ok := s.ghost.index(r.zxid)
		if !ok {
			s.fail("I9", "client %d is answered %v, which is not committed", c.id, r.zxid)
		}
		k := &s.ghost.commits[i]
		if k.origin != r.origin || k.cxid != r.cxid || k.err != r.err {
			s.fail("I9", "client %d is answered %v with code %d; that is another request's, or had code %d", c.id, r.zxid, r.err, k.err)
		}
		if r.zxid <= req.floor {
			s.fail("I19", "client %d wrote %v after %v had been answered", c.id, r.zxid, req.floor)
		}
	case req.kind == reqSync:
		if r.zxid < req.floor {
			s.fail("I19", "client %d: sync at %v, but %v had been answered before it", c.id, r.zxid, req.floor)
		}
	}
}

// connected completes an attempt to connect.
func (s *Sim) connected(c *client, r *reply) {
	if c.node >= 0 {
		s.fail("R1", "client %d is connected twice", c.id)
	}
	if r.readOnly {
		s.connectedAway(c, r)
		return
	}
	if r.err != 0 {
		if r.kind == reqResume && r.err == jute.ErrSessionExpired {
			if s.ghost.lives(c.session, c.asked) {
				s.fail("S4", "client %d is told that its session %v has expired; it lives", c.id, c.session)
			}
			s.stats.ToldExpired++
			c.forgetSession()
		}
		if c.relay != nil {
			s.leaveEdge(c)
		}
		c.attempt++
		c.asked = 0
		return
	}
	c.node, c.origin, c.session, c.timeout, c.felt = int8(r.origin>>56)-1, r.origin, r.session, r.timeout, 0
	s.stats.Connects++
	s.checkSeen(c, r.zxid)
	c.seen = max(c.seen, r.zxid)
	c.inFlight = c.inFlight[:0]
	s.restoreWatches(c)
	s.reattached(c, r)
}

func (c *client) forgetSession() {
	c.exact, c.under = false, nil
	c.session, c.seen, c.told, c.watches, c.persistent = 0, 0, 0, nil, nil
}

func (s *Sim) checkSeen(c *client, z jute.Zxid) {
	if z < c.seen {
		s.fail("I19", "client %d connects at %v after %v", c.id, z, c.seen)
	}
}

// lostConn gives up a connection. The outstanding requests may take effect or not.
func (s *Sim) lostConn(c *client) {
	unsent := len(c.under) > 0
	c.keep()
	if c.relay != nil {
		s.leaveEdge(c)
	} else if c.node >= 0 {
		if s.phase == phaseChaos && s.percent(s.cfg.HangPct) {
			s.haunt(c, !unsent)
		} else {
			s.afterPacket(evToServer, s.nodes[c.node], s.transit(), &packet{to: c.node, client: c.id, req: request{origin: c.origin}})
		}
	}
	c.node, c.origin = -1, 0
	c.restored()
	c.unpersist()
	for _, f := range c.feeds {
		if f.state == feedOn {
			f.state = feedOff
		}
	}
	c.inFlight = c.inFlight[:0]
	c.attempt++
	c.asked = 0
}

// unpersist notes that persistent watches are told nothing before they are set again.
func (c *client) unpersist() {
	for i := range c.persistent {
		c.persistent[i].next = -1
	}
}

// haunt leaves a connection that the client has given up open at its server, and lets the last
// of the client's requests arrive there late, writes among them unless the client still had to send
// others. The server learns of the end even later.
func (s *Sim) haunt(c *client, writes bool) {
	late := s.transit()
	for range s.rng.IntN(3) {
		c.cxid++
		req := request{origin: c.origin, attempt: c.attempt, cxid: c.cxid, session: c.session, seen: c.seen, floor: s.ghost.acked, sent: s.now}
		if req.kind = reqRead; writes && s.percent(70) {
			req.kind = reqWrite
			s.chooseWrite(&req)
		}
		if s.number(c, &req); c.exact && req.covered() {
			c.under = append(c.under, req)
		}
		late = s.between(late, s.cfg.SessionMs*500) // in their order
		s.afterPacket(evToServer, s.nodes[c.node], late, &packet{to: c.node, client: c.id, req: req})
	}
	s.afterPacket(evToServer, s.nodes[c.node], s.cfg.SessionMs*1000, &packet{to: c.node, client: c.id, req: request{origin: c.origin}})
}
