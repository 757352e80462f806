package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/replica"
	"github.com/zkd-project/zkd/server/zab"
)

// The tests of this file are known faults of ZooKeeper's replication (zab.md section C), by
// their number in its tracker, and former faults of zkd.

// stranded makes a leader append entries that no other server gets, and the others elect
// another leader and continue.
func stranded(s *script, entries int) (old *node, lost jute.Zxid) {
	old = s.lead()
	s.committed(s.write(old))
	s.drop(func(from, _ *node, m *zab.Message) bool { return from == old && m.Kind == zab.MsgAppend })
	for range entries {
		lost = s.write(old)
	}
	s.run(20)
	s.cut(old)
	s.drop(nil)
	s.wait("another leader", func() bool { l := s.leader(); return l != nil && l != old })
	leader := s.leader()
	s.wait("it leads", func() bool { return leader.leading() })
	s.committed(s.write(leader))
	return old, lost
}

func TestReg_ZK335_LongerDeadHistoryDoesNotWin(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		old, lost := stranded(s, 20)
		for _, n := range s.nodes {
			s.down(n)
		}
		s.join()
		s.everywhere()
		if old.disk.written.has(lost) {
			t.Errorf("server %d still has %v", old.id, lost)
		}
	})
}

func TestReg_ZK1154_TruncatesWhatOnlyItHad(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		_, lost := stranded(s, 3)
		before := s.stats.Truncations
		s.join()
		s.everywhere()
		if s.stats.Truncations != before+1 {
			t.Errorf("%d truncations, want 1", s.stats.Truncations-before)
		}
		if _, ok := s.ghost.index(lost); ok {
			t.Errorf("%v is committed", lost)
		}
	})
}

func TestReg_ZK1549_SnapshotHasNothingUncommitted(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		old := s.lead()
		s.committed(s.write(old))
		s.cut(old)
		s.write(old)
		s.run(10)
		s.freeze(old) // checked when it is written: I15
		s.run(100)
		if b := old.disk.durable.base(); b == nil || b.zxid > s.ghost.last {
			t.Fatalf("snapshot %v", b)
		}
		s.wait("another leader", func() bool { l := s.leader(); return l != nil && l != old })
		s.join()
		s.everywhere()
	})
}

func TestReg_ZK962_ProposalsWhileALearnerIsSynchronized(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		leader := s.lead()
		lag := s.others(leader)[0]
		for round := range 5 {
			s.down(lag)
			for range 10 * round {
				s.committed(s.write(leader))
			}
			s.up(lag)
			for lag.status.Role != zab.Following {
				s.write(leader)
				s.run(1)
			}
		}
		s.committed(s.write(leader))
		s.everywhere()
	})
}

func TestReg_ZK2845_SameProcessAfterTruncation(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		old, _ := stranded(s, 5)
		life := old.life
		s.join()
		s.everywhere()
		if old.life != life {
			t.Fatal("it was restarted")
		}
		s.committed(s.write(s.leadBy(old)))
		s.everywhere()
	})
}

func TestReg_ZK2959_ObserversDoNotCount(t *testing.T) {
	cfg := quiet(3)
	cfg.Observers = 2
	play(t, cfg, func(s *script) {
		leader := s.lead()
		var followers []*node
		for _, n := range s.others(leader) {
			if n.idx < 3 {
				followers = append(followers, n)
			}
		}
		s.cut(followers...)
		z := s.write(leader)
		s.wait("it gives up", func() bool { return leader.status.Role != zab.Leading })
		if _, ok := s.ghost.index(z); ok {
			t.Errorf("%v is committed by a leader and observers", z)
		}
		s.join()
		s.everywhere()
	})
}

// Each of many power cuts leaves another part of the data being written.
func TestReg_ZK4643_PowerCutWhileAnEpochBegins(t *testing.T) {
	for seed := range uint64(200) {
		cfg := quiet(3)
		cfg.Seed = seed + 1
		play(t, cfg, func(s *script) {
			leader := s.lead()
			lag := s.others(leader)[0]
			s.down(lag)
			var z jute.Zxid
			for range 5 {
				z = s.write(leader)
			}
			s.committed(z)
			s.down(leader)
			s.up(lag)
			s.wait("it writes", func() bool {
				return len(lag.disk.pending) > 0 && lag.disk.pending[0].kind == recAppend || lag.status.Role == zab.Following
			})
			s.down(lag)
			s.join()
			s.everywhere()
		})
	}
}

func TestReg_ZK3911_NoAckOfAnEpochThatIsNotOnDisk(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		leader := s.lead()
		z := s.write(leader)
		s.committed(z)
		s.everywhere()
		s.down(leader)
		for _, n := range s.others(leader) {
			n.stallUntil = s.now + 300_000
		}
		s.run(s.cfg.ElectionMs * 20) // they elect one, slowly; a premature message breaks I16
		for _, n := range s.nodes {
			s.down(n)
		}
		s.join()
		s.everywhere()
	})
}

func TestReg_ZK4394_CommitOfAnEntryThatIsStillToCome(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		leader := s.lead()
		slow := s.others(leader)[0]
		s.hold(func(from, to *node, m *zab.Message) bool { return to == slow && m.Kind == zab.MsgAppend })
		s.committed(s.write(leader))
		s.run(5) // the commit arrives there
		s.release()
		s.everywhere()
	})
}

func TestReg_ZK1277_CounterRunsOut(t *testing.T) {
	cfg := quiet(3)
	cfg.InitialCounter = 0xffff0000 - 5
	play(t, cfg, func(s *script) {
		leader := s.lead()
		epoch := leader.status.Epoch
		for range 40 {
			for leader.core.Status().Role == zab.Leading {
				if _, ok := leader.core.NextZxid(); ok {
					break
				}
				s.step()
			}
			s.write(leader)
			s.run(10)
		}
		s.everywhere()
		if leader.status.Role != zab.Leading || leader.status.Epoch < epoch+2 || s.stats.Leads != 1 {
			t.Errorf("epoch %d after %d; leaderships %d", leader.status.Epoch, epoch, s.stats.Leads)
		}
	})
}

func TestReg_ZK1277_CounterStopsBeforeItWraps(t *testing.T) {
	cfg := quiet(3)
	cfg.InitialCounter = 0xfffffffe - 4
	play(t, cfg, func(s *script) {
		leader := s.lead()
		s.drop(func(_, _ *node, m *zab.Message) bool { return m.Kind == zab.MsgNewEpoch || m.Kind == zab.MsgAckEpoch })
		n := 0
		for ; n < 10; n++ {
			z, ok := leader.core.NextZxid()
			if !ok {
				break
			}
			if z.Epoch() != leader.status.Epoch {
				t.Fatalf("%v in epoch %d", z, leader.status.Epoch)
			}
			s.write(leader)
		}
		if n == 0 || n > 4 {
			t.Errorf("%d entries fitted in", n)
		}
		s.drop(nil)
		s.everywhere()
	})
}

// "Leaders epoch is less than accepted epoch": ZooKeeper loops until an operator restarts
// the leader.
func TestReg_JoinerPromisedAHigherEpoch(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		leader := s.lead()
		s.committed(s.write(leader))
		stray := s.others(leader)[0]
		s.down(stray)
		for _, h := range []*history{&stray.disk.written, &stray.disk.durable} {
			h.promise = zab.Promise{Epoch: leader.status.Epoch + 7, To: stray.id}
		}
		s.up(stray)
		if l := s.lead(); l != leader || s.stats.Leads != 1 {
			t.Errorf("server %d leads, it was %d", l.id, leader.id)
		}
		s.committed(s.write(leader))
		s.everywhere()
		if s.stats.Renewals != 1 {
			t.Errorf("%d renewals", s.stats.Renewals)
		}
	})
}

// A client changes the members while the leader renews its epoch and the marker of that is not
// committed. The request waits; the turn of the leader's loop has to end.
func TestReg_ChangeDuringARenewal(t *testing.T) { play(t, scriptConfig(), changeDuringRenewal) }

func changeDuringRenewal(s *script) {
	leader := s.lead()
	s.everywhere()
	c := s.attach(leader)
	stray, epoch := s.others(leader)[0], leader.status.Epoch
	s.down(stray)
	for _, h := range []*history{&stray.disk.written, &stray.disk.durable} {
		h.promise = zab.Promise{Epoch: epoch + 7, To: stray.id}
	}
	s.up(stray)
	s.wait("a renewal", func() bool { return leader.status.Epoch > epoch })
	list := *s.membersNow()
	list.List = append([]zab.Member(nil), list.List...)
	for i := range list.List {
		list.List[i].Observer = list.List[i].ID == stray.id
	}
	c.change = &change{list: list, allowed: true}
	c.cxid++
	req := request{origin: c.origin, attempt: c.attempt, cxid: c.cxid, session: c.session, sent: s.now}
	s.chooseChange(c, &req)
	c.inFlight = append(c.inFlight, req)
	s.serve(leader, c.id, &req)
	s.wait("an answer", func() bool { return len(c.inFlight) == 0 })
	s.everywhere()
	if s.stats.Reconfigs != 1 {
		s.fail("script", "%d changes of the members", s.stats.Reconfigs)
	}
}

func TestReg_ZK1732_JoinsALeaderThatThereIs(t *testing.T) {
	play(t, quiet(5), func(s *script) {
		leader := s.lead()
		epoch := leader.status.Epoch
		for _, n := range s.others(leader) {
			s.down(n)
			s.run(5)
			s.up(n)
			s.everywhere()
		}
		if leader.status.Role != zab.Leading || leader.status.Epoch != epoch {
			t.Errorf("epoch %d after %d", leader.status.Epoch, epoch)
		}
	})
}

// lagging makes a learner lag so far that only a snapshot helps.
func lagging(s *script) (leader, lag *node) {
	leader = s.lead()
	lag = s.others(leader)[0]
	s.down(lag)
	for range 40 {
		s.committed(s.write(leader))
	}
	s.wait("the log is purged", func() bool { return leader.disk.durable.start > 0 })
	return leader, lag
}

func snapshotting() Config {
	cfg := quiet(3)
	cfg.SnapshotEach, cfg.SnapRetain, cfg.CacheBytes = 5, 1, 1
	cfg.SnapMs = 20
	return cfg
}

func TestReg_ZK3642_BrokenOffSnapshot(t *testing.T) {
	play(t, snapshotting(), func(s *script) {
		leader, lag := lagging(s)
		before, _ := lag.disk.durable.last()
		for range 5 {
			s.up(lag)
			s.wait("a snapshot is on its way", func() bool { return lag.status.Role == zab.SyncingFollower })
			s.breakLink(s.links[leader.idx][lag.idx], [2]uint64{})
			s.run(s.rng.Uint64N(30))
			if lag.alive {
				s.down(lag)
			}
			if last, _ := lag.disk.durable.last(); last != before && last < leader.disk.durable.start {
				t.Fatalf("server %d has a part of something: %v", lag.id, last)
			}
		}
		s.up(lag)
		s.everywhere()
		if s.stats.Installs == 0 {
			t.Error("no snapshot was installed")
		}
	})
}

// A snapshot travels separately from the messages, and may arrive first. It waits.
func TestReg_SnapshotBeforeItsAnnouncement(t *testing.T) {
	play(t, snapshotting(), func(s *script) {
		leader, lag := lagging(s)
		s.up(lag)
		s.hold(func(_, to *node, m *zab.Message) bool { return to == lag && m.Kind == zab.MsgSync })
		s.wait("the snapshot is there", func() bool { x := leader.sends[lag.id]; return x != nil && x.tries > 10 })
		if s.stats.SnapSends > 0 {
			t.Error("it was read before the server knew what it is")
		}
		s.release()
		start := s.now
		s.everywhere()
		if took := (s.now - start) / 1000; took > s.cfg.InitMs {
			t.Errorf("it took %d ms", took)
		}
	})
}

// The leader's answer repeatedly takes longer than a learner waits before it asks again.
// The first answer counts nevertheless; otherwise the learner would never join.
func TestReg_SlowAnswersToALearner(t *testing.T) {
	t.Run("entries", func(t *testing.T) { play(t, quiet(3), slowAnswers) })
	t.Run("snapshot", func(t *testing.T) { play(t, snapshotting(), slowAnswers) })
}

func slowAnswers(s *script) {
	leader := s.lead()
	lag := s.others(leader)[0]
	s.down(lag)
	for range 40 {
		s.committed(s.write(leader))
	}
	late := 7 * s.heartbeat() * 1000
	s.filter = func(from, to *node, m *zab.Message) bool {
		if to != lag || !m.Kind.Bulk() {
			return true
		}
		l := s.linkTo(from, to.id)
		p := s.pack(from, l, &zab.Outgoing{To: to.id, Msg: *m})
		s.afterUndo(late, func() { s.put(from, l, l.side(from), p, false) })
		return false
	}
	s.up(lag)
	s.everywhere()
}

// An acknowledgement that comes while the log is read for the learner must not leave the
// read unfinished.
func TestReg_AckDuringALogRead(t *testing.T) {
	cfg := quiet(3)
	cfg.CacheBytes, cfg.ReadUs = 1, 20_000
	play(t, cfg, func(s *script) {
		leader := s.lead()
		slow := s.others(leader)[0]
		synced := false
		s.hold(func(_, to *node, m *zab.Message) bool {
			synced = synced || to == slow && m.Kind == zab.MsgSync
			return to == slow && m.Kind == zab.MsgAppend
		})
		s.committed(s.write(leader))
		s.committed(s.write(leader))
		s.wait("it is synchronized again, since a heartbeat told of entries that did not come", func() bool { return synced })
		s.release() // while the log is read
		s.run(50)
		s.committed(s.write(leader))
		s.everywhere()
	})
}

// A server asks to be added to the members while a change is not committed yet. Nothing comes of
// that, and nobody complains; it is added later.
func TestReg_JoinDuringAChange(t *testing.T) {
	cfg := quiet(3)
	cfg.AdmitLearners, cfg.Joiners = true, 1
	playFrom(t, cfg, func(s *script) {
		joiner := s.nodes[3]
		s.cut(joiner)
		s.begin()
		leader := s.leadBy(s.nodes[2])
		s.everywhere()
		for _, n := range s.nodes[:2] {
			n.stallUntil = s.now + 4*s.cfg.ElectionMs*1000
		}
		list := *s.membersNow()
		list.List = slices.Clone(list.List)
		list.Find(1).Observer = true
		list.Commanded = true
		z, err := leader.core.ProposeMembers(list)
		if err != nil {
			t.Fatal(err)
		}
		s.ordered[z] = true
		s.drain(leader)
		for _, o := range s.nodes {
			s.blocks[joiner.idx][o.idx], s.blocks[o.idx][joiner.idx] = 0, 0
		}
		asked := func() bool {
			return slices.ContainsFunc(s.lines, func(line string) bool { return strings.Contains(line, "asks the leader to add this server") })
		}
		s.wait("the server asks", asked)
		s.run(20)
		if settled, newest := leader.core.Lists(); newest.Version != z || settled.Version == z || leader.core.LastZxid() != z {
			t.Fatalf("the members are %v since %v; proposed are %v, and %v is the last entry", settled, settled.Version, newest, leader.core.LastZxid())
		}
		if slices.ContainsFunc(s.lines, func(line string) bool { return strings.Contains(line, "and is refused") }) {
			t.Error("the leader complains")
		}
		s.wait("it is added", func() bool { return s.membersNow().Find(joiner.id) != nil })
	})
}

// A late election must consider the history that exists by then.
func TestReg_LateCandidate(t *testing.T) {
	cfg := quiet(3)
	cfg.ElectionMs = 2000
	play(t, cfg, func(s *script) {
		lateCandidate(s)
		s.join()
		s.everywhere()
	})
}

// lateCandidate makes server 3 a candidate for an epoch far ahead when all are equal. Its
// question arrives when the others have had a leader and have committed more.
func lateCandidate(s *script) {
	first, other, late := s.leadBy(s.nodes[0]), s.nodes[1], s.nodes[2]
	s.everywhere()
	s.down(late)
	for _, h := range []*history{&late.disk.written, &late.disk.durable} {
		h.promise = zab.Promise{Epoch: first.status.Epoch + 20, To: late.id}
	}
	s.down(first)
	s.up(late)
	s.hold(func(from, _ *node, m *zab.Message) bool {
		if from == late && m.Kind != zab.MsgNewEpoch {
			m.Promise = first.status.Epoch // the others do not know its promise, or they would go beyond it
		}
		return from == late && m.Kind == zab.MsgNewEpoch
	})
	s.wait("it asks", func() bool { return len(s.held) > 0 })
	s.filter = func(from, _ *node, _ *zab.Message) bool { return from != late }
	s.up(first)
	s.wait("the others have a leader", func() bool { l := s.leader(); return l != nil && l.leading() })
	s.committed(s.write(s.leader()))
	s.wait("both have it", func() bool { return other.disk.durable.has(s.ghost.last) })
	s.down(first)
	s.wait("it looks for a leader", func() bool { return other.status.Role == zab.Looking })
	s.release()
	s.run(s.cfg.ElectionMs / 2)
}

func TestReg_OneWayLinks(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		old := s.lead()
		for _, n := range s.others(old) {
			s.block(n, old) // it is heard, but hears no other server
		}
		s.wait("another leader", func() bool { l := s.leader(); return l != nil && l != old && l.leading() })
		if old.status.Role == zab.Leading {
			t.Error("the old leader still leads")
		}
		s.join()
		s.everywhere()
	})
}

func TestReg_StuckDiskOfTheLeader(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		old := s.lead()
		old.stallUntil = s.now + s.cfg.ElectionMs*100_000
		z := s.write(old)
		s.committed(z) // by the others
		s.wait("another leader", func() bool { l := s.leader(); return l != nil && l != old && l.leading() })
		s.committed(s.write(s.leader()))
	})
}

func TestReg_EmptiedServerCountsOnlyWhenAdmitted(t *testing.T) {
	play(t, quiet(3), emptiedServer)
}

// emptiedServer leaves the leader alone with a server that lost its data, until that server
// is admitted.
func emptiedServer(s *script) {
	leader := s.lead()
	s.committed(s.write(leader))
	s.everywhere()
	two := s.others(leader)
	s.down(two[0])
	two[0].next.wipe = true
	s.cut(two[1])
	s.up(two[0])
	s.wait("it gives up", func() bool { return leader.status.Role != zab.Leading })
	s.run(s.cfg.ElectionMs * 20)
	if l := s.leader(); l != nil {
		s.fail("script", "server %d leads with an empty server's vote", l.id)
	}
	s.join()
	s.everywhere()
	s.wait("it is admitted", func() bool { return s.counts(two[0]) && s.wouldKnowCounted(two[0]) })
	s.down(two[1])
	s.committed(s.write(s.lead()))
}

// A change of the members decides about votes, also on servers that lack it.
func TestReg_VoterByAnEntryThatItLacks(t *testing.T) {
	cfg := quiet(3)
	cfg.Observers = 1
	play(t, cfg, func(s *script) {
		leader := s.lead()
		late := s.nodes[3]
		promote(s, leader, late, false) // so that it is admitted
		promote(s, leader, late, true)
		s.wait("it knows that it counts", func() bool { return s.wouldKnowCounted(late) })
		s.drop(func(_, to *node, m *zab.Message) bool {
			return to == late && (m.Kind == zab.MsgAppend || m.Kind == zab.MsgCommit)
		})
		promote(s, leader, late, false)
		s.drop(nil)
		s.down(late)
		s.down(leader)
		s.up(late)
		s.committed(s.write(s.lead()))
	})
}

// promote makes a server a voter or an observer.
func promote(s *script, leader, n *node, observer bool) {
	m := *s.membersNow()
	m.List = append([]zab.Member(nil), m.List...)
	m.Find(n.id).Observer = observer
	m.Commanded = true
	var z jute.Zxid
	s.wait("members proposed", func() (ok bool) {
		var err error
		z, err = leader.core.ProposeMembers(m)
		return err == nil
	})
	s.drain(leader)
	s.committed(z)
	s.run(1500)
}

// Servers between which a round trip takes longer than a heartbeat elect a leader in the first
// round of their election: its answers count although they come late.
func TestReg_FarServersElectAtOnce(t *testing.T) {
	cfg := scriptConfig()
	farAway(&cfg)
	play(t, cfg, electAtOnce)
}

// farAway has round trips of four heartbeats.
func farAway(c *Config) {
	c.TickMs = 5
	c.HeartbeatMs = c.ElectionMs / 100
	c.NetUs = 2 * c.HeartbeatMs * 1000
}

func electAtOnce(s *script) {
	for range 5 {
		first := s.lead()
		s.everywhere()
		s.down(first)
		others := s.others(first)
		s.wait("they look for another", func() bool { return others[0].status.Leader != first.id && others[1].status.Leader != first.id })
		s.run(s.cfg.ElectionMs / 2)
		if s.leader() == nil {
			s.fail("script", "no leader after half of an election timeout: %s", s.describeNodes())
		}
		s.up(first)
	}
}

// A leader that has promised its successor the next epoch begins no election while the
// successor may still take over, also if another server asks it for its vote.
func TestReg_LeaderHandsOverToItsSuccessor(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		to := promisedSuccessor(s)
		s.release()
		s.wait("it leads", func() bool { return to.leading() })
	})
}

// promisedSuccessor makes a leader hand over. The promise to its successor stays on its way,
// and another server, which the successor can't reach, has no leader.
func promisedSuccessor(s *script) (to *node) {
	leader := s.lead()
	s.everywhere()
	to, other := s.others(leader)[0], s.others(leader)[1]
	s.hold(func(from, dest *node, m *zab.Message) bool {
		return m.Kind == zab.MsgAckEpoch || from == to && dest == other
	})
	s.wait("it can take over", func() bool { return leader.core.TransferTo(to.id) == nil })
	s.drain(leader)
	s.wait("it is promised an epoch", func() bool { return leader.disk.durable.promise.To == to.id })
	s.breakLink(s.linkTo(leader, other.id), [2]uint64{}) // each asks when they are linked again
	s.run(s.cfg.ElectionMs / 2)
	return to
}

func TestReg_LeaderThatIsNoVoterGoes(t *testing.T) {
	play(t, quiet(4), func(s *script) {
		first := s.lead()
		m := *s.membersNow()
		m.List = append([]zab.Member(nil), m.List...)
		old := s.others(first)[0]
		m.Find(old.id).Observer = true
		m.Commanded = true
		s.drop(func(_, to *node, m *zab.Message) bool { return to != old && m.Kind == zab.MsgAppend })
		z, err := first.core.ProposeMembers(m)
		if err != nil {
			t.Fatal(err)
		}
		s.drain(first)
		s.wait("it has the change", func() bool { return old.disk.durable.has(z) })
		s.down(first)
		s.drop(nil)
		s.wait("it led", func() bool { return s.ghost.established[z.Epoch()+1] == old.id })
		s.wait("another leader", func() bool { l := s.leader(); return l != nil && l != old && l.leading() })
		s.everywhere()
		if old.status.Role != zab.Following || !old.status.Observer {
			t.Errorf("the old leader is %s", roleName(old.status.Role))
		}
	})
}

// A change of the members needs a quorum of the previous members as well.
func TestReg_OldMembersDecideOnAChange(t *testing.T) {
	play(t, quiet(3), func(s *script) {
		z := fewerVoters(s)
		if _, ok := s.ghost.index(z); ok {
			t.Errorf("%v is committed, and only one server has it", z)
		}
		s.drop(nil)
		s.committed(z)
	})
}

// fewerVoters makes the leader propose that it is the only voter, and drops the messages in
// which the leader sends the proposal.
func fewerVoters(s *script) jute.Zxid {
	leader := s.lead()
	s.everywhere()
	m := *s.membersNow()
	m.List = append([]zab.Member(nil), m.List...)
	for i := range m.List {
		m.List[i].Observer = m.List[i].ID != leader.id
	}
	m.Commanded = true
	s.drop(func(_, _ *node, m *zab.Message) bool { return m.Kind == zab.MsgAppend })
	z, err := leader.core.ProposeMembers(m)
	if err != nil {
		s.fail("script", "members: %v", err)
	}
	s.ordered[z] = true
	s.drain(leader)
	s.run(s.cfg.ElectionMs / 4)
	return z
}

// A leader that finds a change of the members in its history, not committed, commits nothing
// without a quorum of the new members either.
func TestReg_NewLeaderTakesOverAChange(t *testing.T) {
	play(t, quiet(5), func(s *script) {
		takenOverChange(s)
		s.drop(nil)
		s.everywhere()
		if len(ids(s.membersNow())) != 3 {
			t.Errorf("the members are %v", s.membersNow())
		}
	})
}

// takenOverChange ends a leader while a change to three of five members is under way, of
// whom two get no entries. Its successor has the old members' quorum only.
func takenOverChange(s *script) {
	leader := s.lead()
	s.everywhere()
	others := s.others(leader)
	m := *s.membersNow()
	m.List = append([]zab.Member(nil), m.List...)
	for i := range m.List {
		m.List[i].Observer = m.List[i].ID == leader.id || m.List[i].ID == others[3].id
	}
	m.Commanded = true
	s.drop(func(_, to *node, m *zab.Message) bool {
		return m.Kind == zab.MsgAppend && (to == others[0] || to == others[1])
	})
	z, err := leader.core.ProposeMembers(m)
	if err != nil {
		s.fail("script", "members: %v", err)
	}
	s.ordered[z] = true
	s.drain(leader)
	s.wait("others have the change", func() bool {
		return others[2].disk.durable.has(z) && others[3].disk.durable.has(z)
	})
	s.down(leader)
	s.wait("a successor", func() bool {
		return others[2].status.Role == zab.SyncingLeader || others[3].status.Role == zab.SyncingLeader
	})
	s.up(leader)
	s.run(s.cfg.ElectionMs)
}

// A leader without room for what waits ends the connection that has most of it. Later requests of the
// connection must not be executed: a client's writes take effect in their order and without a gap.
func TestReg_NothingFollowsARefusedRequest(t *testing.T) {
	cfg := quiet(3)
	cfg.Waiting = 600
	play(t, cfg, func(s *script) {
		leader := s.lead()
		origin := leader.newOrigin()
		for cxid, size := range []int{0, 1000, 0} {
			s.set(leader, origin, int32(cxid), size)
			if cxid != 1 {
				s.takeOutputs(leader)
			}
		}
		s.committed(s.write(leader)) // from another connection
		if asked := s.ghost.asked[origin]; len(asked) != 2 || asked[0].cxid != 1 {
			t.Errorf("of three requests, %d are not done", len(asked))
		}
	})
}

// set submits a write with so many bytes.
func (s *script) set(n *node, origin uint64, cxid int32, size int) {
	op := jute.MultiOp{Type: jute.OpSetData, Path: "/", Data: make([]byte, size), Version: -1}
	s.submit(n, replica.Write, evaluate.Request{Op: op.Type, Origin: origin, Cxid: cxid, Body: op.Append(nil)})
}

// A leader that can't propose has requests waiting up to a limit. A connection that sends its first
// request then is served, since others have more of what waits.
func TestReg_WhoHasMostWaitingGivesWay(t *testing.T) { play(t, waitingLimited(), latecomer) }

func waitingLimited() Config {
	cfg := quiet(3)
	cfg.Waiting = 20_000
	return cfg
}

func latecomer(s *script) {
	leader := s.lead()
	many, large, late := leader.newOrigin(), leader.newOrigin(), leader.newOrigin()
	for cxid := range int32(5) {
		s.set(leader, many, cxid, 0)
	}
	for cxid := range int32(10) {
		s.set(leader, large, cxid, 1500)
	}
	for cxid := range int32(5) {
		s.set(leader, late, cxid, 500)
	}
	s.handOver(leader)
	if held := leader.rep.Held(); held.Waiting != 10 || held.WaitingBytes > s.cfg.Waiting || held.Barriers != 1 {
		s.fail("script", "%d requests with %d bytes wait, and %d connections are told", held.Waiting, held.WaitingBytes, held.Barriers)
	}
	s.committed(s.write(leader))
	for origin, left := range map[uint64]int{many: 0, large: 10, late: 0} {
		if asked := s.ghost.asked[origin]; len(asked) != left {
			s.fail("script", "connection %#x has %d requests that are not done, want %d", origin, len(asked), left)
		}
	}
}

// While short requests come, few long ones are under way at a time. All are done in the end.
func TestReg_LongRequestsAreDone(t *testing.T) { play(t, quiet(3), longRequests) }

func longRequests(s *script) {
	leader := s.lead()
	long := leader.newOrigin()
	for cxid := range int32(20) {
		s.set(leader, long, cxid, 16<<10)
	}
	s.set(leader, leader.newOrigin(), 0, 0)
	s.takeOutputs(leader)
	if leader.rep.Held().Waiting == 0 {
		s.fail("script", "all long requests are under way at the same time")
	}
	s.wait("all are done", func() bool { return leader.rep.Held().Waiting == 0 })
}

// A learner's summary that comes late, after a later one by which it is served, cancels
// nothing: the leader keeps the log that the learner needs.
func TestReg_LateSummary(t *testing.T) {
	cfg := quiet(3)
	cfg.WindowBytes, cfg.BatchBytes = 200, 100
	play(t, cfg, func(s *script) {
		leader := s.lead()
		learner := s.others(leader)[0]
		s.down(learner)
		for range 20 {
			s.committed(s.write(leader))
		}
		s.drop(func(from, _ *node, m *zab.Message) bool { return from == learner && m.Kind == zab.MsgAck })
		s.up(learner)
		s.wait("the learner is served", func() bool {
			l := s.linkTo(leader, learner.id)
			return l != nil && learner.status.Role == zab.SyncingFollower && leader.core.Needs() < leader.core.LastZxid()
		})
		l := s.linkTo(leader, learner.id)
		late := zab.Message{Kind: zab.MsgFollow, Boot: learner.boot}
		leader.core.Recv(learner.id, l.gen[l.side(leader)], &late)
		if needs, last := leader.core.Needs(), leader.core.LastZxid(); needs >= last {
			t.Errorf("the log after %v is needed, the last entry is %v", needs, last)
		}
		s.drop(nil)
		s.everywhere()
	})
}

// TestReg_RivalsStandAtOnce: a message takes longer than a candidate waits for better ones, and
// two candidates that split the promises tick at the same time. Their candidacies last a whole
// number of ticks, as do their waits after a first failure.
func TestReg_RivalsStandAtOnce(t *testing.T) {
	for seed := range uint64(20) {
		cfg := quiet(3)
		cfg.Seed, cfg.Groups = seed, 2
		cfg.TickMs, cfg.ElectionMs, cfg.HeartbeatMs, cfg.NetUs, cfg.FsyncUs = 25, 200, 25, 20_000, 20_000
		play(t, cfg, func(s *script) {
			s.phase = phaseLive // all messages and writes take 5 ms
			for range 4 {
				before := s.lead().status.Epoch
				for _, n := range s.nodes {
					s.down(n)
				}
				for _, i := range []int{2, 0, 1} {
					s.restart(s.nodes[i])
				}
				if n := s.lead().status.Epoch - before; n > 12 {
					t.Errorf("seed %d: %d candidacies for an election", seed, n)
				}
			}
		})
	}
}
