package sim

import "testing"

// TestReg_SmallMember: a member's tree may take less memory than it takes, and the others have any amount. The leader
// does no write that adds to the tree until that member has more. Then it does.
func TestReg_SmallMember(t *testing.T) { play(t, scriptConfig(), smallMember) }

func smallMember(s *script) {
	leader := s.lead()
	other := s.others(leader)[0]
	s.committed(s.write(leader))
	s.everywhere()
	for _, n := range []*node{other, leader} {
		n.room = 1
		s.run(s.cfg.ElectionMs) // it tells the leader, or finds out itself
		last := leader.core.LastZxid()
		if z := s.write(leader); z != last {
			s.fail("M1", "server %d proposes %v, and the tree of server %d has no room for it", leader.id, z, n.id)
		}
		n.room = 0
		s.run(s.cfg.ElectionMs)
		if z := s.write(leader); z == last {
			s.fail("M2", "server %d refuses a write, and there is room for it", leader.id)
		}
	}
	s.everywhere()
}
