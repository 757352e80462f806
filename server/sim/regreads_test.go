package sim

import (
	"slices"
	"testing"

	"github.com/zkd-project/zkd/server/zab"
)

// Former and planted faults of reads: see reg_test.go.

func TestReg_ZK1675_SyncAtADeposedLeader(t *testing.T) {
	play(t, quiet(3), func(s *script) { deposedReads(s) })
}

// deposedReads asks a leader for a read index while its successor commits: once before, so
// that a round is under way, and once after. The result of the round must not answer the
// later question.
func deposedReads(s *script) {
	old := s.lead()
	s.committed(s.write(old))
	s.everywhere()
	s.run(s.cfg.ElectionMs)
	s.hold(func(_, to *node, m *zab.Message) bool { return to == old && m.Kind == zab.MsgPong })
	old.core.ReadIndex(1)
	s.drain(old)
	s.run(3)
	pongs := s.filter
	s.filter = func(from, to *node, m *zab.Message) bool {
		return to != old && (from != old || m.Kind == zab.MsgTimeoutNow) || m.Kind == zab.MsgPong && pongs(from, to, m)
	}
	old.core.Transfer()
	s.drain(old)
	s.wait("a successor", func() bool { l := s.leader(); return l != old && l.leading() })
	s.filter = func(from, to *node, _ *zab.Message) bool { return from != old && to != old }
	z := s.write(s.leader())
	s.committed(z)
	if old.status.Role != zab.Leading {
		s.fail("script", "the old leader knows too soon")
	}
	old.core.ReadIndex(2)
	old.core.Take(&old.out.Output)
	reads := append([]zab.ReadResult(nil), old.out.Reads...)
	for _, h := range s.held {
		old.core.Recv(h.from.id, h.l.gen[h.l.side(old)], &h.p.msg)
		old.core.Take(&old.out.Output)
		reads = append(reads, old.out.Reads...)
	}
	for _, r := range reads {
		if r.ID == 2 && r.OK && r.Index < z {
			s.fail("I19", "a question asked when %v was committed is answered %v", z, r.Index)
		}
	}
}

// A quorum has answered a heartbeat, and a question comes within the same ms: only the answers to
// the next heartbeat say that the leader still leads.
func TestReg_EchoOfTheHeartbeatBefore(t *testing.T) { play(t, quiet(3), echoBefore) }

func echoBefore(s *script) {
	leader := s.lead()
	s.everywhere()
	s.run(s.cfg.ElectionMs)
	asked := func(id uint64) (pings []zab.Outgoing, answered bool) {
		if id != 0 {
			leader.core.ReadIndex(id)
		}
		var out zab.Output
		leader.core.Take(&out)
		for _, o := range out.Send {
			if o.Msg.Kind == zab.MsgPing {
				pings = append(pings, o)
			}
		}
		return pings, slices.ContainsFunc(out.Reads, func(r zab.ReadResult) bool { return r.OK })
	}
	answer := func(ping *zab.Outgoing) {
		leader.core.Recv(ping.To, ping.Gen, &zab.Message{Kind: zab.MsgPong, Epoch: ping.Msg.Epoch, Echo: ping.Msg.Seq})
	}
	first, answered := asked(1)
	if answered || len(first) != 2 {
		s.fail("script", "%d heartbeats, answered %v", len(first), answered)
	}
	for i := range first {
		answer(&first[i])
	}
	if _, answered = asked(0); !answered {
		s.fail("script", "a quorum has answered, and the question is not")
	}
	second, answered := asked(2)
	if answered {
		s.fail("I19", "a question is answered that no server has been asked about since")
	}
	for i := range first {
		answer(&first[i]) // late, or twice
	}
	if _, answered = asked(0); answered {
		s.fail("I19", "the answers to an earlier heartbeat confirm a question")
	}
	answer(&second[0])
	if _, answered = asked(0); !answered {
		s.fail("script", "a quorum has answered, and the second question is not")
	}
}

// A learner asks its leader for a read index, and starts again before the answer. Its new process
// numbers its questions as the old one did, and must not get the answer to that one's.
func TestReg_QuestionOverAnOldLink(t *testing.T) { play(t, scriptConfig(), oldLinkAnswer) }

func oldLinkAnswer(s *script) {
	leader := s.leadBy(s.nodes[2])
	n := s.nodes[0]
	s.everywhere()
	var old []uint64 // numbers of the questions of the first process
	asks := false
	s.filter = func(from, to *node, m *zab.Message) bool {
		switch {
		case from == n && m.Kind == zab.MsgReadIndex && !asks:
			old, asks = append(old, m.Seq), true
		case to == leader && m.Kind == zab.MsgPong && len(old) > 0:
			m.Echo = 0 // hears the learners, but no quorum confirms the round
		}
		return true
	}
	n.core.ReadIndex(1)
	s.drain(n)
	s.wait("the question has arrived", func() bool { return asks })
	s.run(5)
	s.down(n)
	s.up(n)
	s.wait("it follows again", func() bool { return n.status.Role == zab.Following })
	z := s.write(leader)
	s.committed(z)
	n.core.ReadIndex(1)
	asks = true
	s.drain(n)
	s.run(5)
	s.filter = func(from, to *node, m *zab.Message) bool {
		if from == leader && to == n && m.Kind == zab.MsgReadIndexResp && m.Commit < z {
			s.fail("I19", "a question asked when %v was committed gets the answer %v of an earlier process", z, m)
		}
		return true
	}
	s.run(s.cfg.ElectionMs)
}
