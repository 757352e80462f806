package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/zab"
)

// script forces situations onto an ensemble without random faults or clients. The
// invariants are checked after each step, as in every run.
type script struct {
	*Sim
	t     testing.TB
	paths int
	held  []heldMessage
}

// heldMessage is a message stopped in transit.
type heldMessage struct {
	from *node
	l    *link
	p    *packet
}

// play runs a script on an ensemble of n voters. A violated invariant fails the test and
// prints the events.
func play(t testing.TB, cfg Config, do func(s *script)) {
	t.Helper()
	playFrom(t, cfg, func(s *script) {
		s.begin()
		do(s)
	})
}

// playFrom is like play for a script that begins before the servers start.
func playFrom(t testing.TB, cfg Config, do func(s *script)) {
	t.Helper()
	cfg.Clients = 0
	s := &script{Sim: newSim(cfg), t: t}
	s.tracing = true
	defer func() {
		t.Helper()
		if f := failed(recover()); f != nil {
			lines := s.lines[max(0, len(s.lines)-60):]
			t.Fatalf("%v\n%s", f, strings.Join(lines, "\n"))
		}
	}()
	do(s)
}

// failed returns the failure that ended a script, or nil. Any other panic continues.
func failed(x any) *Failure {
	f, ok := x.(*Failure)
	if x != nil && !ok {
		panic(x)
	}
	return f
}

// begin starts all servers, and waits until they have founded their ensemble.
func (s *script) begin() {
	for _, n := range s.nodes {
		s.restart(n)
	}
	s.lead()
	s.wait("all count", func() bool {
		for _, n := range s.nodes {
			if s.members.Voter(n.id) && !(s.counts(n) && s.wouldKnowCounted(n)) {
				return false
			}
		}
		return true
	})
}

// run lets time pass.
func (s *script) run(ms uint64) {
	for end := s.now + ms*1000; s.now < end; {
		s.step()
	}
}

// wait runs until a condition holds.
func (s *script) wait(what string, done func() bool) {
	for end := s.now + 200*s.cfg.ElectionMs*1000; !done(); s.step() {
		if s.now > end {
			s.fail("script", "not so: %s: %s", what, s.describeNodes())
		}
	}
}

// lead waits for a leader that all running members follow.
func (s *script) lead() *node {
	up := func() (list []*node) {
		for _, n := range s.listed() {
			if n.alive {
				list = append(list, n)
			}
		}
		return list
	}
	s.wait("a leader", func() bool { return s.settled(up()) })
	return s.settledLeader(up())
}

// leadBy makes a certain server the leader of all.
func (s *script) leadBy(n *node) *node {
	if leader := s.lead(); leader != n {
		s.wait("it can take over", func() bool { return leader.core.TransferTo(n.id) == nil })
		s.drain(leader)
		s.wait("it leads", n.leading)
	}
	return s.lead()
}

// write proposes a transaction at a leader and returns its zxid.
func (s *script) write(n *node) jute.Zxid {
	s.paths++
	op := jute.MultiOp{Type: jute.OpCreate, Path: "/n" + string(rune('A'+s.paths/26%26)) + string(rune('a'+s.paths%26)), ACL: openACL}
	return s.submitted(n, evaluate.Request{Origin: uint64(n.id) << 56, Op: op.Type, Body: op.Append(nil)})
}

// submitted proposes the transaction of a request at a leader and returns its zxid.
func (s *script) submitted(n *node, req evaluate.Request) jute.Zxid {
	s.submit(n, replica.Write, req)
	s.handOver(n)
	n.rep.Turn()
	n.rep.Propose()
	z := n.core.LastZxid()
	s.drain(n)
	return z
}

// committed waits until an entry is committed.
func (s *script) committed(z jute.Zxid) {
	s.wait("committed "+z.String(), func() bool { _, ok := s.ghost.index(z); return ok })
}

// everywhere waits until all running members have applied everything.
func (s *script) everywhere() {
	s.lead()
	s.wait("applied everywhere", func() bool {
		for _, n := range s.listed() {
			if n.alive && n.applied != s.ghost.last {
				return false
			}
		}
		return true
	})
}

// cut separates some servers from all others; join ends all separations.
func (s *script) cut(list ...*node) {
	in := make(map[*node]bool)
	for _, n := range list {
		in[n] = true
	}
	for _, a := range s.nodes {
		for _, b := range s.nodes {
			if in[a] != in[b] {
				s.blocks[a.idx][b.idx] = 1
				s.breakLink(s.links[a.idx][b.idx], [2]uint64{})
			}
		}
	}
}

func (s *script) join() { s.heal(s.nodes) }

// down ends a process, with the power of its machine; up starts it again.
func (s *script) down(n *node) { s.crash(n, true) }
func (s *script) up(n *node)   { s.restart(n) }

// others returns all nodes but n.
func (s *script) others(n *node) (list []*node) {
	for _, o := range s.nodes {
		if o != n {
			list = append(list, o)
		}
	}
	return list
}

// hold stops the messages for which a condition is true; release delivers them.
func (s *script) hold(which func(from, to *node, m *zab.Message) bool) {
	s.filter = func(from, to *node, m *zab.Message) bool {
		if !which(from, to, m) {
			return true
		}
		l := s.linkTo(from, to.id)
		s.held = append(s.held, heldMessage{from, l, s.pack(from, l, &zab.Outgoing{To: to.id, Msg: *m})})
		return false
	}
}

func (s *script) release() {
	s.filter = nil
	for _, h := range s.held {
		s.put(h.from, h.l, h.l.side(h.from), h.p, false)
	}
	s.held = nil
}

// drop drops the messages for which a condition is true, until it is called with nil.
func (s *script) drop(which func(from, to *node, m *zab.Message) bool) {
	s.filter = nil
	if which != nil {
		s.filter = func(from, to *node, m *zab.Message) bool { return !which(from, to, m) }
	}
}

// quiet returns an ensemble of voters without faults.
func quiet(voters int) Config {
	c := Base(1)
	c.Voters = voters
	c.SnapshotEach = 0
	return c
}

// submit submits a request of this node's clients in the present service.
func (s *Sim) submit(n *node, kind replica.Kind, req evaluate.Request) {
	s.hand(n, replica.Submission{Kind: kind, Service: n.rep.Service(), Received: time.Duration(n.localMs()) * time.Millisecond, Request: req})
	if kind == replica.Write && req.Op != jute.OpCreateSession {
		s.ghost.asked[req.Origin] = append(s.ghost.asked[req.Origin], ask{cxid: req.Cxid})
	}
}

// scriptConfig returns the ensemble for scripts that find planted faults.
func scriptConfig() Config {
	cfg := quiet(3)
	cfg.Clients, cfg.ElectionMs = 0, 2000
	return cfg
}
