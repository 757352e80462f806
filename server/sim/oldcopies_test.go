package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/server/zab"
)

// putBack replaces the disk of a stopped server by an older state.
func (s *script) putBack(n *node, old *history) {
	n.disk.durable = old.clone()
	n.disk.data.keep(old.snaps...)
	n.disk.cut()
	n.disk.pending = nil
	n.old = true
	s.ghost.tops[n.id] = n.disk.durable.promise.Epoch
}

// TestReg_OldCopyOfADirectory: a copy is made while a server is stopped. The server
// continues with both others, then confirms writes with one of them; then the copy is put
// back. Together with the server that was away it must not elect a leader: the writes would
// be lost.
func TestReg_OldCopyOfADirectory(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		a := s.leadBy(s.nodes[0])
		b, c := s.nodes[1], s.nodes[2]
		s.down(b)
		copied := b.disk.durable.clone()
		s.up(b)
		s.everywhere()
		s.committed(s.write(a))
		s.everywhere()
		s.wait("c has noted that b has started again", func() bool {
			return slices.ContainsFunc(c.disk.durable.notes.Sightings, func(g zab.Sighting) bool {
				return g.Server == b.id && g.Position > copied.records
			})
		})
		s.down(c)
		for range 20 {
			s.committed(s.write(a))
		}
		s.wait("b has them", func() bool { return b.disk.durable.has(s.ghost.last) })
		s.down(b)
		s.putBack(b, &copied)
		s.down(a)
		s.up(b)
		s.up(c)
		for range 20 * s.cfg.ElectionMs {
			s.run(1)
			if l := s.leader(); l != nil {
				t.Fatalf("server %d leads without what servers 1 and 2 have confirmed", l.id)
			}
		}
		if w := b.status.NotCounted; w == "" || b.old {
			t.Errorf("server 2 was not told that it runs on an old copy: %q, %v", w, b.old)
		}
		s.up(a)
		s.everywhere()
		s.wait("b is admitted again", func() bool { return s.counts(b) && s.wouldKnowCounted(b) })
		s.down(a)
		s.committed(s.write(s.lead()))
	})
}

// TestReg_DoubtDuringHandshake: a server comes back with an old copy of its disk. While the
// handshake with its leader takes long, the third server doubts it, and it gives up its
// incarnation. The leader must not go on to ignore it for what it had said in its hello.
func TestReg_DoubtDuringHandshake(t *testing.T) { play(t, quiet(3), doubtDuringHandshake) }

// TestReg_IgnoredLink: the same with a handshake that ends well although that hello is out of
// date. The leader ends the link after a while.
func TestReg_IgnoredLink(t *testing.T) {
	cfg := quiet(3)
	cfg.LateHellos = true
	play(t, cfg, doubtDuringHandshake)
}

func doubtDuringHandshake(s *script) {
	leader := s.leadBy(s.nodes[2])
	n := s.nodes[0]
	s.down(n)
	copied := n.disk.durable.clone()
	s.up(n)
	s.everywhere()
	s.wait("the others have noted that it has started again", func() bool {
		return !slices.ContainsFunc(s.others(n), func(o *node) bool {
			return !slices.ContainsFunc(o.disk.durable.notes.Sightings, func(g zab.Sighting) bool { return g.Server == n.id && g.Position > copied.records })
		})
	})
	s.down(n)
	s.putBack(n, &copied)
	s.slowHandshake = func(a, b *node) uint64 {
		if a == n && b == leader {
			return s.cfg.DialMs * 6000
		}
		return s.cfg.DialMs * 3000 // after both hellos
	}
	s.up(n)
	s.wait("it has given up its incarnation", func() bool { return n.relinks > 0 })
	s.slowHandshake = nil
	s.wait("it is admitted again", func() bool { return s.counts(n) && s.wouldKnowCounted(n) })
	s.committed(s.write(leader))
}

// TestReg_FounderIsAdmittedAtOnce: a voter starts for the first time when the others have founded
// the ensemble without it, and the leader dies soon. The two others elect a leader.
func TestReg_FounderIsAdmittedAtOnce(t *testing.T) {
	cfg := quiet(3)
	playFrom(t, cfg, func(s *script) {
		late := s.nodes[0]
		for _, n := range s.others(late) {
			s.restart(n)
		}
		leader := s.lead()
		s.run(3 * s.cfg.ElectionMs)
		s.up(late)
		s.wait("it follows", func() bool { return late.status.Role == zab.Following })
		s.run(2 * s.cfg.TickMs)
		s.down(leader)
		s.run(3 * s.cfg.ElectionMs)
		if s.leader() == nil {
			t.Fatal("no leader:", s.describeNodes())
		}
		s.committed(s.write(s.lead()))
	})
}

// TestReg_FounderBeforeItsAdmission: as before, but the leader dies before it has admitted the late
// voter. Without an admission nobody can tell that one from a wiped server, so it has no vote: the
// two wait, and say for what.
func TestReg_FounderBeforeItsAdmission(t *testing.T) {
	playFrom(t, quiet(3), func(s *script) {
		other, leader := founderBeforeItsAdmission(s)
		const want = "too few voters for a majority: no link to server 3; server 1 has no vote: a leader has to admit it first"
		if leads := s.leader(); leads != nil || !strings.HasPrefix(other.status.Awaits, want) {
			t.Errorf("leader %v; server 2 waits for: %s", leads, other.status.Awaits)
		}
		if !slices.ContainsFunc(s.lines, func(line string) bool {
			return strings.Contains(line, want) && strings.Contains(line, "no leader for 1 s")
		}) {
			t.Error("it does not say so")
		}
		s.up(leader)
		s.committed(s.write(s.lead()))
	})
}

func founderBeforeItsAdmission(s *script) (other, leader *node) {
	other, leader = s.nodes[1], s.nodes[2]
	foundWithout(s, s.nodes[0])
	s.down(leader)
	s.drop(nil)
	s.run(10 * s.cfg.ElectionMs)
	return other, leader
}

// foundWithout founds an ensemble without a server, which follows afterwards. Its admission is not
// committed.
func foundWithout(s *script, late *node) {
	for _, n := range s.others(late) {
		s.restart(n)
	}
	s.leadBy(s.nodes[2])
	s.run(3 * s.cfg.ElectionMs)
	s.drop(func(_, _ *node, m *zab.Message) bool {
		return m.Kind == zab.MsgAppend && slices.ContainsFunc(m.Entries, func(e zab.Entry) bool { return e.Type == zab.EntryAdmit })
	})
	s.up(late)
	s.wait("it follows", func() bool { return late.status.Role == zab.Following })
}

func TestReg_WipedFounder(t *testing.T) { playFrom(t, scriptConfig(), wipedFounder) }

// wipedFounder: a leader that has synchronized a late voter, and not admitted it, is cut off from both
// others. If these elect a leader, by a rule that lets the voter count because the history has no
// admission of it, and commit a write, and then the voter is wiped and comes back to the old
// leader alone, that one must not commit anything with it.
func wipedFounder(s *script) {
	late, other, leader := s.nodes[0], s.nodes[1], s.nodes[2]
	foundWithout(s, late)
	s.drop(nil)
	way := func(a, b *node, blocked int) { s.blocks[a.idx][b.idx], s.blocks[b.idx][a.idx] = blocked, blocked }
	for _, o := range s.others(leader) { // the leader learns of it late
		way(leader, o, 1)
		l := s.links[leader.idx][o.idx]
		var after [2]uint64
		after[l.side(leader)] = s.cfg.ElectionMs * 1000
		s.breakLink(l, after)
	}
	s.run(s.cfg.ElectionMs / 20)
	if other.leading() {
		s.committed(s.write(other))
	}
	s.down(late)
	late.next.wipe = true
	s.injectDiskFault(late)
	way(late, leader, 0)
	way(late, other, 1)
	s.up(late)
	s.run(s.cfg.ElectionMs / 5)
	if leader.leading() {
		s.write(leader)
	}
	s.run(s.cfg.ElectionMs)
	s.join()
	s.committed(s.write(s.lead()))
}

// TestReg_GrownOldCopy: an old copy is started so often without meeting another server that
// its log gets longer than the one that others have seen. It is not the same log.
func TestReg_GrownOldCopy(t *testing.T) { play(t, quiet(3), grownOldCopy) }

func grownOldCopy(s *script) {
	leader := s.leadBy(s.nodes[0])
	n := s.nodes[1]
	s.down(n)
	copied := n.disk.durable.clone()
	s.up(n)
	s.everywhere()
	s.down(n)
	s.putBack(n, &copied)
	s.cut(n)
	for range 20 {
		s.up(n)
		s.run(10)
		s.down(n)
	}
	s.join()
	s.wait("it is told", func() bool { return !n.old })
	s.wait("it is admitted again", func() bool { return s.counts(n) && s.wouldKnowCounted(n) })
	s.committed(s.write(leader))
}

// TestReg_ReplacedTwice: an old copy gets another incarnation while the server runs. At the
// next start its log is damaged and replaced, and the power fails before IDENTITY is written.
func TestReg_ReplacedTwice(t *testing.T) { play(t, quiet(3), replacedTwice) }

func replacedTwice(s *script) {
	s.leadBy(s.nodes[0])
	n := s.nodes[1]
	s.down(n)
	copied := n.disk.durable.clone()
	s.up(n)
	s.everywhere()
	s.down(n)
	s.putBack(n, &copied)
	s.up(n)
	s.wait("it has another incarnation", func() bool { return n.disk.durable.incarnation != copied.incarnation })
	s.down(n)
	n.torn, n.next.unsettled = true, true
	s.start(n)
	s.wait("it is admitted again", func() bool { return s.counts(n) && s.wouldKnowCounted(n) })
}

// TestReg_CopyOfARunningServer: a copy made during the life of a process, such as a volume
// that is rolled back, is noticed by the leader that has heard of later records.
func TestReg_CopyOfARunningServer(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		leader := s.leadBy(s.nodes[2])
		n := s.nodes[0]
		copied := n.disk.durable.clone()
		for range 5 {
			s.committed(s.write(leader))
		}
		s.wait("it has them", func() bool { return n.disk.durable.has(s.ghost.last) })
		s.run(s.cfg.ElectionMs)
		s.down(n)
		s.putBack(n, &copied)
		s.drop(func(from, to *node, m *zab.Message) bool { return from == n && m.Kind == zab.MsgAckEpoch })
		s.up(n)
		s.wait("it is told", func() bool { return !n.old })
		s.drop(nil)
		s.wait("it is admitted again", func() bool { return s.counts(n) && s.wouldKnowCounted(n) })
	})
}

// TestNemesisSparesTheEnsemble: the files of server 1 and of a new server have a list of which the two are
// a majority. If server 1 loses what it has they may found another ensemble, and nothing in an ensemble
// prevents that. So the nemesis does not put a copy of server 1 back that was made before the founding.
func TestNemesisSparesTheEnsemble(t *testing.T) {
	cfg := quiet(3)
	cfg.AdmitLearners, cfg.Joiners = true, 1
	play(t, cfg, func(s *script) {
		s.lead()
		s.everywhere()
		n, joiner := s.nodes[0], s.nodes[3]
		files := zab.Members{List: []zab.Member{{ID: 1}, {ID: 2}, {ID: 4}}}
		copied := n.disk.durable.clone()
		for range 50 {
			n.copy, n.file, joiner.file = &history{exists: true}, files, files
			joiner.disk = disk{}
			if s.planDiskFault(n, FaultRollback); !n.alive {
				t.Fatal("server 1 has lost all its data")
			}
		}
		for n.alive { // a copy with the ensemble's history is put back
			n.copy = &copied
			s.planDiskFault(n, FaultRollback)
		}
	})
}
