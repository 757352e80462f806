package sim

import (
	"testing"

	"github.com/zkd-project/zkd/server/zab"
)

// Answers to changes of the members whose leader is gone: see package replica, service.go.

func changing() Config {
	cfg := scriptConfig()
	longSessions(&cfg)
	return cfg
}

// leaves returns the request of a client that a server leaves the members.
func (s *script) leaves(c *client, id zab.SID) request {
	list := *s.membersNow()
	list.List = nil
	for _, m := range s.membersNow().List {
		if m.ID != id {
			list.List = append(list.List, m)
		}
	}
	c.change = &change{list: list, allowed: true}
	req := request{origin: c.origin, cxid: c.cxid + 1}
	s.chooseChange(c, &req)
	return req
}

// changed checks that a client has the answer to its change on the connection that it had.
func (s *script) changed(c *client) {
	s.lead()
	switch {
	case c.node < 0:
		s.fail("script", "the connection has ended")
	case s.stats.Reconfigs != 1:
		s.fail("script", "the members were changed %d times", s.stats.Reconfigs)
	}
}

// TestReg_ChangeThatRemovesTheLeader: the answer comes from the server of the client, when it applies
// the change.
func TestReg_ChangeThatRemovesTheLeader(t *testing.T) {
	play(t, changing(), func(s *script) {
		leader := s.lead()
		c := s.attach(s.others(leader)[0])
		s.drop(func(from, _ *node, m *zab.Message) bool { // the next leader says that it is committed
			return from == leader && (m.Kind == zab.MsgCommit || m.Kind == zab.MsgPing)
		})
		s.request(c, s.leaves(c, leader.id))
		s.changed(c)
	})
}

// TestReg_ChangeOfADeadLeader: a leader proposes a change, and a follower has that and the answer
// when the leader dies. The next leader commits it, and the client is answered.
func TestReg_ChangeOfADeadLeader(t *testing.T) {
	play(t, changing(), func(s *script) {
		leader := s.lead()
		n := s.others(leader)[0]
		c := s.attach(n)
		s.everywhere()
		last := leader.core.LastZxid()
		s.drop(func(_, to *node, m *zab.Message) bool { return m.Kind == zab.MsgAck && to == leader })
		s.ask(c, s.leaves(c, leader.id))
		s.wait("the follower has the change", func() bool { return n.disk.durable.has(last + 1) })
		s.down(leader)
		s.drop(nil)
		s.wait("an answer", func() bool { return len(c.inFlight) == 0 })
		s.changed(c)
	})
}

// TestReg_ChangeThatIsGivenUp: a follower has the answer to a change that only the leader has when it
// dies. The next leader, which has never seen it, makes the change.
func TestReg_ChangeThatIsGivenUp(t *testing.T) { play(t, changing(), givenUpChange) }

func givenUpChange(s *script) {
	leader := s.lead()
	n := s.others(leader)[0]
	c := s.attach(n)
	s.everywhere()
	last := leader.core.LastZxid()
	s.drop(func(from, _ *node, m *zab.Message) bool { return m.Kind == zab.MsgAppend && from == leader })
	s.ask(c, s.leaves(c, leader.id))
	s.wait("the follower has the answer", func() bool { return n.rep.Held().Barriers > 0 })
	if n.disk.durable.has(last+1) || leader.core.LastZxid() == last {
		s.fail("script", "the follower has the change, or the leader has not")
	}
	s.down(leader)
	s.drop(nil)
	s.wait("an answer", func() bool { return len(c.inFlight) == 0 })
	s.changed(c)
}

// TestReg_ChangeWithoutAnswer: a change is committed, and the answer is lost with the leader. It is
// not made a second time, and the connection ends.
func TestReg_ChangeWithoutAnswer(t *testing.T) { play(t, changing(), changeWithoutAnswer) }

func changeWithoutAnswer(s *script) {
	leader := s.lead()
	n, other := s.others(leader)[0], s.others(leader)[1]
	c := s.attach(n)
	s.everywhere()
	s.ask(c, s.leaves(c, leader.id))
	last := leader.core.LastZxid()
	s.blocks[leader.idx][n.idx] = 1
	s.wait("the change", func() bool { return other.disk.durable.has(last + 1) })
	s.down(leader)
	s.join()
	s.wait("the end of the connection, or an answer", func() bool { return len(c.inFlight) == 0 })
	s.lead()
	if c.node >= 0 || s.stats.Reconfigs != 1 {
		s.fail("script", "the client is at server %d, and the members were changed %d times", c.node+1, s.stats.Reconfigs)
	}
}
