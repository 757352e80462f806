package sim

import (
	"slices"
	"testing"

	"github.com/zkd-project/zkd/server/datadirs"
	"github.com/zkd-project/zkd/server/zab"
)

// A majority loses its logs, and operators order what is left to be set aside. The servers
// must not begin another ensemble without the third one, however often they start.
func TestReg_MajorityWithoutLogs(t *testing.T) { play(t, quiet(3), majorityWithoutLogs) }

func majorityWithoutLogs(s *script) {
	leader := s.lead()
	s.committed(s.write(leader))
	s.everywhere()
	for _, n := range s.nodes {
		s.down(n)
	}
	lost := s.others(leader)
	for _, n := range lost {
		s.unmount(n, lacksLog)
		n.away = nil
		n.order = datadirs.ShortID(n.disk.data.owner.Incarnation)
	}
	for range 3 { // starts
		for _, n := range lost {
			s.up(n)
		}
		s.run(s.cfg.ElectionMs * 20)
		if l := s.leader(); l != nil {
			s.fail("script", "server %d leads without data", l.id)
		}
		for _, n := range lost {
			s.down(n)
		}
	}
}

// The log is missing at two starts, which are refused and change nothing. Then it is back.
func TestReg_LogBackAfterTwoStarts(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		leader := s.lead()
		n := s.others(leader)[0]
		s.committed(s.write(leader))
		s.everywhere()
		s.down(n)
		s.unmount(n, lacksLog)
		for range 2 {
			if _, err := n.found().Decide(""); err == nil {
				t.Fatal("the server would start without its log")
			}
			s.committed(s.write(leader))
		}
		s.mount(n)
		s.up(n)
		s.everywhere()
		s.down(s.others(leader)[1])
		s.committed(s.write(leader)) // it counts at once
	})
}

// The directories of all servers have been exchanged: the log is where the data should be, and
// the data is where the log should be. The servers must not begin another ensemble. Then all is
// put right.
func TestReg_DirectoriesExchanged(t *testing.T) { play(t, quiet(3), directoriesExchanged) }

func directoriesExchanged(s *script) {
	leader := s.lead()
	s.committed(s.write(leader))
	s.everywhere()
	for _, n := range s.nodes {
		s.down(n)
		s.unmount(n, exchanged)
		if start, err := n.found().Decide(""); err == nil {
			s.fail("script", "server %d starts with exchanged directories: %+v", n.id, start)
		}
	}
	for _, n := range s.nodes {
		s.mount(n)
		s.up(n)
	}
	s.everywhere()
	s.committed(s.write(s.lead()))
}

// Both directories are missing, and the server starts without data, several times. Then they
// are back: what it promised meanwhile must not have counted.
func TestReg_BothDirectoriesBack(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		leader := s.lead()
		n, third := s.others(leader)[0], s.others(leader)[1]
		s.committed(s.write(leader))
		s.everywhere()
		s.down(n)
		s.down(third)
		s.unmount(n, lacksLog|lacksData)
		for range 2 {
			s.up(n)
			s.run(s.cfg.ElectionMs * 10)
			if l := s.leader(); l != nil {
				t.Fatalf("server %d leads with the vote of an empty server", l.id)
			}
			s.down(n)
		}
		s.mount(n)
		s.up(n)
		s.up(third)
		s.everywhere()
		s.committed(s.write(s.lead()))
	})
}

// A server that lost its data sees another one, then the same one under another incarnation,
// which starts without data while both its directories are missing. It must remember the
// first: the ensemble has admitted that incarnation, though this server's own history is empty.
func TestReg_EmptyServerForgotAnotherLog(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		leader := s.lead()
		a, b := s.others(leader)[0], s.others(leader)[1]
		s.committed(s.write(leader))
		s.everywhere()
		s.down(a)
		a.next.wipe = true
		s.cut(leader)
		s.up(a)
		remembers := func(incarnation zab.ID) func() bool {
			return func() bool {
				return slices.ContainsFunc(a.disk.durable.notes.Sightings, func(g zab.Sighting) bool {
					return g.Server == b.id && g.Incarnation == incarnation
				})
			}
		}
		admitted := b.disk.durable.incarnation
		s.wait("it has seen the other one", remembers(admitted))
		s.down(b)
		s.unmount(b, lacksLog|lacksData)
		s.up(b)
		s.wait("it has seen it without data", remembers(b.disk.durable.incarnation))
		if !remembers(admitted)() {
			t.Error("the log that was admitted is forgotten")
		}
	})
}
