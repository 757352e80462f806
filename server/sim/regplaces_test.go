package sim

import (
	"testing"

	"github.com/zkd-project/zkd/server/zab"
)

// A leader sends few snapshots at a time. Learners that do not read theirs hold all places when a voter
// comes that needs one.

// crowded makes some servers need snapshots, of which two do not read theirs, and waits until another one
// serves again. It returns how long that took, in ms.
func (s *script) crowded(leader *node, deaf [2]*node, late *node) uint64 {
	for _, n := range []*node{deaf[0], deaf[1], late} {
		s.down(n)
	}
	for range 40 {
		s.committed(s.write(leader))
	}
	s.wait("the log is purged", func() bool { return leader.disk.durable.start > 0 })
	s.drop(func(_, to *node, m *zab.Message) bool {
		return m.Kind == zab.MsgSync && (to == deaf[0] || to == deaf[1])
	})
	s.up(deaf[0])
	s.up(deaf[1])
	s.wait("both places are taken", func() bool { return len(leader.sends) == 2 })
	began := s.now
	s.up(late)
	s.wait("the voter follows", func() bool { return late.status.Role == zab.Following })
	return (s.now - began) / 1000
}

func crowding() Config {
	cfg := snapshotting()
	cfg.Clients, cfg.ElectionMs, cfg.InitMs = 0, 400, 4000
	return cfg
}

// TestReg_ObserversHoldAllPlaces: a voter gets the place of an observer at once.
func TestReg_ObserversHoldAllPlaces(t *testing.T) {
	cfg := crowding()
	cfg.Observers = 2
	play(t, cfg, deafObservers)
}

func deafObservers(s *script) {
	leader := s.lead()
	var deaf []*node
	var late *node
	for _, n := range s.others(leader) {
		if !s.members.Voter(n.id) {
			deaf = append(deaf, n)
		} else {
			late = n
		}
	}
	if ms := s.crowded(leader, [2]*node(deaf), late); ms >= s.cfg.InitMs {
		s.fail("script", "a voter waited %d ms for observers that do not read", ms)
	}
}

// TestReg_VotersHoldAllPlaces: a voter gets the place of another one whose transfer makes no progress.
func TestReg_VotersHoldAllPlaces(t *testing.T) {
	cfg := crowding()
	cfg.Voters = 7
	play(t, cfg, func(s *script) {
		leader := s.lead()
		others := s.others(leader)
		if ms := s.crowded(leader, [2]*node(others[:2]), others[2]); ms >= 2*s.cfg.InitMs {
			s.fail("script", "a voter waited %d ms for others that do not read", ms)
		}
	})
}
