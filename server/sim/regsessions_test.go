package sim

import (
	"fmt"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/zab"
)

// Former faults of sessions: see reg_test.go.

// A client comes back just in time, but the leader can't propose anything. The session must
// not be expired meanwhile; otherwise its close would follow the answer that it lives (seed
// 700011629).
func TestReg_SessionIsDueWhileItsClientWaits(t *testing.T) {
	cfg := quiet(3)
	shortSessions(&cfg)
	play(t, cfg, sessionDue)
}

// TestReg_LeasesOfALeaderWithOtherSettings: a leader whose elections take long gives long
// leases. A later leader with other settings expires no session whose client the earlier
// leader may still have answered.
func TestReg_LeasesOfALeaderWithOtherSettings(t *testing.T) {
	cfg := quiet(3)
	slowElections(&cfg)
	play(t, cfg, longLeases)
}

func slowElections(cfg *Config) {
	cfg.Clients, cfg.SessionMs, cfg.ElectionMs, cfg.HeartbeatMs = 0, 1_000, 5_000, 50
}

func longLeases(s *script) {
	leader := s.lead()
	for _, o := range s.others(leader) {
		o.settings = &settings{electionMs: s.cfg.ElectionMs / 10}
		s.down(o)
		s.up(o)
		s.wait("the server is back", func() bool { return o.status.Role == zab.Following && o.status.Leader == leader.id })
	}
	id := jute.SessionID(7)
	s.submit(leader, replica.Write, evaluate.Request{
		Op: jute.OpCreateSession, Session: id, Origin: leader.newOrigin(), TimeoutMs: int32(s.cfg.SessionMs)})
	s.takeOutputs(leader)
	s.wait("the session", func() bool { _, ok := leader.tree.Session(id); return ok })
	s.everywhere()
	s.run(s.cfg.SessionMs / 4)
	for _, o := range s.others(leader) { // no server notices
		s.blocks[leader.idx][o.idx], s.blocks[o.idx][leader.idx] = 1, 1
	}
	answers := func() bool {
		return leader.status.Role == zab.Leading && int64(leader.localMs()) < leader.rep.AnswersUntil()
	}
	asked := s.now
	s.wait("the leader answers no more", func() bool {
		if !answers() {
			return true
		}
		asked = s.now
		leader.tracker.Get(id).Touch(int64(leader.localMs()), int32(s.cfg.SessionMs)) // the client pings
		return false
	})
	for s.now < asked+(s.cfg.SessionMs-1)*1000 {
		s.step()
		for _, o := range s.others(leader) {
			if _, ok := o.tree.Session(id); !ok {
				s.fail("S6", "server %d has closed session %v %d ms after its client was answered", o.id, id, (s.now-asked)/1000)
			}
		}
	}
	s.wait("the session expires", func() bool {
		_, ok := s.others(leader)[0].tree.Session(id)
		return !ok
	})
}

// shortSessions has sessions that are shorter than elections, and an epoch that has to be
// renewed soon.
func shortSessions(cfg *Config) {
	cfg.InitialCounter = 0xfffffffe - 4
	cfg.SessionMs, cfg.ElectionMs = 1_000, 2_000
}

func sessionDue(s *script) {
	leader := s.lead()
	id, origin := jute.SessionID(7), leader.newOrigin()
	ask := func(kind replica.Kind) {
		s.submit(leader, kind, evaluate.Request{
			Op: jute.OpCreateSession, Session: id, Origin: origin, TimeoutMs: int32(s.cfg.SessionMs)})
		s.takeOutputs(leader)
	}
	ask(replica.Write)
	s.wait("the session", func() bool { _, ok := leader.tree.Session(id); return ok })
	s.drop(func(_, _ *node, m *zab.Message) bool { return m.Kind == zab.MsgNewEpoch || m.Kind == zab.MsgAckEpoch })
	for {
		if _, ok := leader.core.NextZxid(); !ok {
			break
		}
		s.write(leader)
	}
	s.run(s.cfg.SessionMs / 2)
	if leader.rep.Held().Waiting != 0 {
		s.fail("script", "something else waits")
	}
	s.write(leader)
	ask(replica.Resume)
	s.run(s.cfg.SessionMs * 3 / 4) // after its end, if it had not been resumed
	s.drop(nil)
	s.wait("the next epoch", func() bool { return leader.rep.Held().Waiting == 0 })
	if leader.status.Role != zab.Leading || s.stats.Leads != 1 {
		s.fail("script", "another leader")
	}
	s.run(s.cfg.SessionMs / 2)
	if _, ok := leader.tree.Session(id); !ok {
		s.fail("S6", "session %v has expired behind its resumption", id)
	}
}

// A server answers a client by itself, and then loses its leader for a while, but not the
// link to it. The client's connection ends. The leader continues to lead, and must learn of
// the touch with the next report.
func TestReg_TouchBeforeTheRoleEnds(t *testing.T) {
	cfg := quiet(3)
	longSessions(&cfg)
	cfg.InterludeMs = 0
	play(t, cfg, touchBeforePartition)
}

func longSessions(cfg *Config) {
	cfg.ElectionMs, cfg.SessionMs, cfg.InterludeMs = 400, 3200, 4000
}

func touchBeforePartition(s *script) {
	leader := s.lead()
	n := s.others(leader)[0]
	c := s.touched(n)
	s.drop(func(from, to *node, _ *zab.Message) bool { return from == n || to == n })
	s.wait("the role ends", func() bool { return !n.rep.Follows() })
	s.run(s.cfg.SessionMs / 2)
	s.drop(nil)
	s.expires(leader, n, c)
}

// A server ends before it has reported a touch, and is back soon. It reports again, and the
// leader can't know what it has forgotten.
func TestReg_TouchBeforeACrash(t *testing.T) {
	cfg := quiet(3)
	longSessions(&cfg)
	play(t, cfg, touchBeforeCrash)
}

func touchBeforeCrash(s *script) {
	leader := s.lead()
	n := s.others(leader)[0]
	c := s.touched(n)
	s.down(n)
	s.up(n)
	s.expires(leader, n, c)
}

// touched returns a client whose session a server has touched without having told the leader.
func (s *script) touched(n *node) *client {
	s.everywhere()
	c := &client{node: -1, attempt: 1}
	s.clients = append(s.clients, c)
	s.serve(n, c.id, &request{kind: reqCreateSession, attempt: c.attempt, timeout: int32(s.cfg.SessionMs), sent: s.now})
	s.wait("a session", func() bool { return c.node >= 0 })
	s.run(s.cfg.SessionMs / 2) // it is reported
	s.ping(n, c)
	return c
}

// ping sends a client's ping, and waits for the answer.
func (s *script) ping(n *node, c *client) {
	c.cxid++
	ping := request{kind: reqPing, origin: c.origin, attempt: c.attempt, cxid: c.cxid, session: c.session, sent: s.now}
	c.inFlight = append(c.inFlight, ping)
	s.serve(n, c.id, &ping)
	s.wait("the answer", func() bool { return len(c.inFlight) == 0 })
}

// TestReg_OwnersOutliveTheLeader: connections stay when the lead moves. The new leader knows which
// server has them, and lets no session expire whose client that server may have answered since
// its last report.
func TestReg_OwnersOutliveTheLeader(t *testing.T) {
	cfg := quiet(3)
	longSessions(&cfg)
	play(t, cfg, keptOwner)
}

func keptOwner(s *script) {
	leader := s.lead()
	n, next := s.others(leader)[0], s.others(leader)[1]
	c := s.touched(n)
	if err := leader.core.TransferTo(next.id); err != nil {
		s.fail("script", "%v", err)
	}
	s.wait("the lead moves", func() bool {
		return next.status.Role == zab.Leading && n.status.Role == zab.Following && n.status.Leader == next.id
	})
	for range 4 { // longer than the leases of the leader before
		s.run(s.cfg.SessionMs / 4)
		s.ping(n, c)
	}
	s.run(s.cfg.SessionMs * 5 / 8)
	s.blocks[n.idx][next.idx], s.blocks[next.idx][n.idx] = 1, 1
	s.ping(n, c)
	if c.origin == 0 || n.conn(c.origin) == nil {
		s.fail("script", "the connection has ended")
	}
	s.wait("the session expires", func() bool { return !s.ghost.sessions[c.session] })
}

// expires waits until a server follows the leader again, and a client's session has expired.
func (s *script) expires(leader, n *node, c *client) {
	s.wait("it follows again", func() bool { return n.status.Role == zab.Following })
	s.wait("the session expires", func() bool { _, ok := leader.tree.Session(c.session); return !ok })
}

// A client resumes its session with a longer timeout at the leader, which answers it and then
// ends. The next leader does not expire the session by the old timeout.
func TestReg_TimeoutOutlivesTheLeader(t *testing.T) {
	cfg := quiet(3)
	longSessions(&cfg)
	play(t, cfg, longerTimeout)
}

func longerTimeout(s *script) {
	leader := s.lead()
	c := s.touched(leader)
	longer := 3 * c.timeout
	s.lostConn(c)
	s.serve(leader, c.id, &request{kind: reqResume, attempt: c.attempt, session: c.session, timeout: longer, sent: s.now})
	s.wait("it is resumed", func() bool { return c.node >= 0 })
	if c.timeout != longer {
		s.fail("script", "the client has asked for a timeout of %d ms and was told %d", longer, c.timeout)
	}
	s.down(leader)
	s.wait("the session expires", func() bool { return !s.ghost.sessions[c.session] })
}

// TestReg_LateBarriers: a follower loses its leader, and follows it again over the same link. Of
// two answers of the leader to requests from before, the first comes while the server follows
// nobody, and the second one afterwards. That one does not answer the first request.
func TestReg_LateBarriers(t *testing.T) {
	cfg := quiet(3)
	longSessions(&cfg)
	play(t, cfg, lateBarriers)
}

func lateBarriers(s *script) {
	leader := s.lead()
	n := s.others(leader)[0]
	c := s.touched(n)
	l := s.linkTo(n, leader.id)
	ask := func(at uint64, req request) {
		l.next[l.side(n)][laneBulk] = at // arrives no earlier
		c.cxid++
		req.origin, req.attempt, req.cxid, req.session, req.sent = c.origin, c.attempt, c.cxid, c.session, s.now
		c.inFlight = append(c.inFlight, req)
		s.serve(n, c.id, &req)
	}
	first := s.now + 2*s.cfg.ElectionMs*1000
	ask(first, request{kind: reqWrite, op: jute.OpSetData, body: malformed})
	ask(first+500_000, request{kind: reqSync})
	s.drop(func(from, to *node, _ *zab.Message) bool { return to == n })
	s.wait("the first answer is lost", func() bool { return s.now > first+50_000 })
	if n.status.Role != zab.Looking {
		s.fail("script", "it follows")
	}
	s.drop(nil)
	s.wait("it follows again", func() bool { return n.status.Role == zab.Following })
	if s.now > first+500_000 || n.status.Leader != leader.id || s.linkTo(n, leader.id) != l {
		s.fail("script", "it follows too late, or over another link")
	}
	s.wait("the answers", func() bool { return len(c.inFlight) == 0 })
	if c.node < 0 {
		s.fail("script", "the connection has ended")
	}
}

// TestReg_RackExpires: many sessions with ephemerals expire at the same time. The leader closes few at a
// time, and all in the end.
func TestReg_RackExpires(t *testing.T) {
	cfg := quiet(3)
	rack(&cfg)
	play(t, cfg, rackExpires)
}

// rack has sessions of which two may be closed at the same time, and appliers that are slower than the
// disks and the network.
func rack(cfg *Config) {
	longSessions(cfg)
	cfg.Closings, cfg.ApplyUs = 2*4*256, 5000
}

func rackExpires(s *script) {
	leader := s.lead()
	closings := s.stats.Closings
	rack := s.openRack(leader)
	s.wait("all have expired", func() bool { return leader.tree.NumSessions() == 0 })
	if leader.status.Role != zab.Leading || s.stats.Leads != 1 || s.stats.Closings-closings != len(rack) {
		s.fail("script", "another leader, or %d closings", s.stats.Closings-closings)
	}
	s.everywhere()
}

// openRack opens sessions at a server, each with a few ephemerals.
func (s *script) openRack(n *node) (rack []jute.SessionID) {
	before := n.tree.NumSessions()
	for i := range 20 {
		id := jute.SessionID(1000 + i)
		rack = append(rack, id)
		s.submit(n, replica.Write, evaluate.Request{
			Op: jute.OpCreateSession, Session: id, Origin: n.newOrigin(), TimeoutMs: int32(s.cfg.SessionMs)})
		for j := range 3 {
			op := jute.MultiOp{Type: jute.OpCreate, Path: fmt.Sprintf("/rack-%d-%d", i, j), ACL: openACL, Mode: jute.ModeEphemeral}
			s.submit(n, replica.Write, evaluate.Request{Op: op.Type, Session: id, Body: op.Append(nil)})
		}
	}
	s.takeOutputs(n)
	s.wait("the sessions", func() bool { return n.tree.NumSessions() == before+len(rack) })
	s.everywhere()
	if nodes := n.tree.Stats().Ephemerals; nodes != 3*len(rack) {
		s.fail("script", "%d ephemerals", nodes)
	}
	return rack
}

// TestReg_ResumeOfADoomedSession: a client comes back after its session has expired, while its closing waits
// for others. It is not told that its session lives.
func TestReg_ResumeOfADoomedSession(t *testing.T) {
	cfg := quiet(3)
	rack(&cfg)
	play(t, cfg, resumeOfADoomedSession)
}

func resumeOfADoomedSession(s *script) {
	leader := s.lead()
	c := s.touched(leader)
	rack := s.openRack(leader)
	s.ping(leader, c)
	for _, id := range rack {
		leader.tracker.Touch(id, int64(leader.localMs()), int32(s.cfg.SessionMs))
	}
	s.lostConn(c)
	s.wait("the session is to be closed", func() bool { return leader.tracker.IsClosing(c.session) })
	if leader.rep.Held().Waiting == 0 {
		s.fail("script", "its closing does not wait")
	}
	other := s.others(leader)[0] // which does not know that it is to be closed
	s.serve(other, c.id, &request{kind: reqResume, attempt: c.attempt, session: c.session, timeout: c.timeout, sent: s.now})
	s.wait("the session is closed", func() bool { return !s.ghost.sessions[c.session] })
	if c.node >= 0 {
		s.fail("script", "the client has its session")
	}
}

// A client of an exactly-once session sends its last write again, against the rules: before the
// first one is applied, after it, and at the next leader. It is done once.
func TestReg_LastWriteSentAgain(t *testing.T) { play(t, quiet(3), lastWriteAgain) }

func lastWriteAgain(s *script) {
	leader := s.leadBy(s.nodes[2])
	id, origin := jute.SessionID(7), leader.newOrigin()
	s.committed(s.submitted(leader, evaluate.Request{Op: jute.OpCreateSession, Session: id, Origin: origin, TimeoutMs: 1 << 30, Exact: true}))
	s.everywhere()
	s.ghost.exactOf(id).issued = []int32{1, 2}
	write := func(number int64) jute.Zxid { // on one connection
		op := jute.MultiOp{Type: jute.OpCreate, Path: fmt.Sprint("/exact", number), ACL: openACL}
		return s.submitted(leader, evaluate.Request{Op: op.Type, Session: id, Origin: origin, Cxid: int32(number), Number: number, Confirmed: number - 1, Body: op.Append(nil)})
	}
	write(1)
	s.committed(write(1))
	s.everywhere()
	s.committed(write(1))
	s.leadBy(s.nodes[1])
	for _, number := range []int64{1, 2} {
		s.run(s.cfg.ElectionMs)
		write(number)
	}
	s.wait("the next write is done", func() bool {
		out := s.ghost.tree.Outcomes(id)
		return len(out) == 1 && out[0].Number == 2
	})
}

// A client that has lost its session to another one does not take it back: not before the transaction that took it is applied,
// and not from the next leader. Two edges took a session from each other without end.
func TestReg_MovedSessionIsNotRegained(t *testing.T) { play(t, quiet(3), takenOver) }

func takenOver(s *script) {
	const one, two jute.Holder = 4, 8
	id := jute.SessionID(7)
	resume := func(n *node, h jute.Holder) (origin uint64) {
		origin = n.newOrigin()
		s.submit(n, replica.Resume, evaluate.Request{Op: jute.OpCreateSession, Session: id, Origin: origin, TimeoutMs: 1 << 30, Cxid: int32(h)})
		return origin
	}
	owned := func(want uint64) {
		s.run(s.cfg.ElectionMs)
		if got := s.ghost.tree.SessionOwner(id); got != want {
			s.fail("script", "connection %#x has the session, not %#x", got, want)
		}
	}
	leader := s.leadBy(s.nodes[2])
	s.committed(s.submitted(leader, evaluate.Request{Op: jute.OpCreateSession, Session: id, Origin: leader.newOrigin(), TimeoutMs: 1 << 30, Cxid: int32(one | jute.HolderTakes)}))
	s.everywhere()
	owned(resume(leader, one)) // the client that has it
	last := resume(leader, two|jute.HolderTakes)
	resume(leader, one)
	owned(last)
	next := s.leadBy(s.nodes[1])
	resume(next, one)
	owned(last)
	owned(resume(next, two))
	last = resume(next, 0) // a client without the extension always takes it
	resume(next, two)
	owned(last)
}

// A client leaves a connection with writes that the leader has not evaluated, and resumes its session on another one. They
// are refused, and are no transactions. Clients that waited too long for an ensemble that committed one write at a time, and came
// back, filled it with those until no client got an answer (seeds 26411 and 27268 at f056a4d8).
func TestReg_WritesOfALeftConnection(t *testing.T) { play(t, quiet(3), leftWithWrites) }

func leftWithWrites(s *script) {
	leader := s.lead()
	id, left, now := jute.SessionID(7), leader.newOrigin(), leader.newOrigin()
	s.committed(s.submitted(leader, evaluate.Request{Op: jute.OpCreateSession, Session: id, Origin: left, TimeoutMs: 1 << 30}))
	s.everywhere()
	create := func(path string, origin uint64) evaluate.Request {
		op := jute.MultiOp{Type: jute.OpCreate, Path: path, ACL: openACL}
		return evaluate.Request{Op: op.Type, Session: id, Origin: origin, Body: op.Append(nil)}
	}
	s.committed(s.submitted(leader, create("/before", left)))
	s.submit(leader, replica.Resume, evaluate.Request{Op: jute.OpCreateSession, Session: id, Origin: now, TimeoutMs: 1 << 30})
	s.submit(leader, replica.Write, create("/late", left))
	s.submit(leader, replica.Write, create("/later", left))
	s.committed(s.submitted(leader, create("/after", now)))
	for _, k := range s.ghost.commits {
		if k.err != 0 {
			s.fail("script", "the history has a write of connection %#x with code %d", k.origin, k.err)
		}
	}
	if !s.ghost.exists("/before", s.ghost.last) || s.ghost.exists("/late", s.ghost.last) || !s.ghost.exists("/after", s.ghost.last) {
		s.fail("script", "not what was written by the owner alone is there")
	}
}
