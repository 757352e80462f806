package sim

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
)

// piloted is an ensemble of five with autopilot.
func piloted(c *Config) {
	c.Voters, c.AdmitLearners, c.AutopilotMs = 5, true, 3*c.ElectionMs
}

// An operator names a server that autopilot has demoted, as an observer. It stays one.
func TestReg_ACommandDecidesAboutADemotedServer(t *testing.T) {
	cfg := quiet(5)
	piloted(&cfg)
	play(t, cfg, func(s *script) {
		n := namedByCommand(s)
		s.up(n)
		s.everywhere()
		s.run(s.cfg.AutopilotMs)
		if !s.membersNow().Find(n.id).Observer {
			t.Errorf("the members are %v", s.membersNow())
		}
	})
}

// namedByCommand makes autopilot demote a server, and then a client name it as an observer in
// a list of all members.
func namedByCommand(s *script) *node {
	leader := s.lead()
	n := s.others(leader)[0]
	s.down(n)
	s.wait("it is demoted", func() bool { return s.membersNow().Find(n.id).Demoted })
	s.everywhere()
	want := &change{list: *s.membersNow(), allowed: true, origin: leader.newOrigin(), cxid: 2}
	want.list.List = withoutMarks(want.list.List)
	text := changeBy(want.origin, want.cxid)
	s.ghost.wanted[text] = want
	s.ghost.asked[want.origin] = []ask{{cxid: want.cxid}}
	body := jute.ReconfigRequest{NewMembers: changeText(text, &want.list), ConfigID: -1}
	s.submit(leader, replica.Write, evaluate.Request{Op: jute.OpReconfig, Origin: want.origin, Cxid: want.cxid, Body: body.Append(nil), Auth: []jute.ID{{Scheme: "super"}}})
	s.takeOutputs(leader)
	s.wait("the mark is gone", func() bool { return !s.isDemoted() })
	return n
}

// A server that autopilot has demoted becomes a voter again under another leader, also after a
// power cut of all servers.
func TestReg_MarksOutliveLeaders(t *testing.T) {
	cfg := quiet(5)
	piloted(&cfg)
	play(t, cfg, func(s *script) {
		leader := s.lead()
		n := s.others(leader)[0]
		s.down(n)
		s.wait("it is demoted", func() bool { return s.membersNow().Find(n.id).Demoted })
		s.leadBy(s.others(leader)[1])
		for _, o := range s.nodes {
			s.down(o)
		}
		s.join()
		s.wait("it is a voter again", func() bool { return len(ids(s.membersNow())) == 5 && !s.isDemoted() })
	})
}
