package zab

import (
	"fmt"
	"testing"
)

// TestOldSnapshot: a learner that already has more than the snapshot is never brought up to
// date with it, however much shorter it is than the log. Until the rest arrived again,
// entries that the learner had acknowledged would be on one server fewer than was counted.
func TestOldSnapshot(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	n.tune = func(o *Options) { o.CacheBytes, o.WindowBytes, o.BatchBytes = 100, 400, 200 }
	n.serve()
	l := n.leader()
	l.snapshot = l.newSnapshot()
	l.core.SnapshotTaken(l.snapshot.Zxid, 1000)
	propose := func() {
		for i := range 10 {
			l.propose(fmt.Sprint("txn ", i))
			n.run(20)
		}
	}
	propose()
	l.core.LogPurged(0, 4*smallLog)
	one := n.server(1)
	had := one.last()
	one.crash()
	propose()
	one.start()
	n.until(2000, "it has all", func() bool {
		if one.last() < had {
			t.Fatalf("the log ends at %v, %v was acknowledged", one.last(), had)
		}
		return n.converged()
	})
}

// TestSnapshotBehindCommonPoint: a learner refuses such a snapshot if a leader sends it.
func TestSnapshotBehindCommonPoint(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	n.serve()
	l, one := n.leader(), n.server(1)
	old := one.newSnapshot()
	l.propose("acknowledged, but not known to be committed")
	n.until(20, "it has the entry", func() bool { return one.last() > old.Zxid })
	l.frozen = true
	last := one.last()
	one.core.requestSync(one.core.peer(l.id), "test")
	m := Message{Kind: MsgSync, Flags: FlagSnapshot, Epoch: 1, Zxid: last, Seq: 7, Boot: one.core.opt.Boot, Nonce: one.core.vote.nonce}
	one.core.Recv(l.id, one.links[l.id], &m)
	one.core.SnapshotReceived(l.id, 7, *old)
	one.take()
	if one.core.Committed() != old.Zxid || one.last() != last || one.core.LastZxid() != last {
		t.Errorf("the log ends at %v, it was %v:\n%s", one.last(), last, n.dump())
	}
}

// TestQueuedSnapshot: a learner that waits for a snapshot gets it if those before it
// disconnect during theirs.
func TestQueuedSnapshot(t *testing.T) {
	n := newNetwork(t, 1, 3, 3)
	n.serve()
	l := n.leader()
	late := n.servers[3:]
	for _, s := range late {
		s.crash()
		s.wipe()
	}
	l.propose("a")
	n.run(100)
	l.core.LogPurged(l.state.Zxid, 0)
	l.core.log.entries = cache{}
	n.fsync = 100
	for _, s := range late {
		s.start()
	}
	n.until(500, "one is queued", func() bool {
		p := l.core.peer(late[2].id)
		return p.state == learnerQueued && late[2].core.following.snapToken != 0
	})
	late[0].crash()
	late[1].crash()
	n.until(1000, "it serves", n.settledDown)
}

// TestUnwantedSnapshots: a snapshot that no MsgSync of the leader announces is refused from
// any server, and nothing of it is kept. Once announced, it is accepted.
func TestUnwantedSnapshots(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	n.serve()
	one, l := n.server(1), n.leader()
	var other SID
	for _, s := range n.servers {
		if s != one && s != l {
			other = s.id
		}
	}
	state := one.state.Clone()
	state.skipTo(l.core.LastZxid() + 10)
	snap := SnapInfo{Zxid: state.Zxid, State: state}
	unwanted := func(from SID, token uint64) {
		t.Helper()
		if one.core.SnapshotReceived(from, token, snap) {
			t.Errorf("took snapshot %d of server %d", token, from)
		}
	}
	unwanted(l.id, 7)
	one.core.requestSync(one.core.peer(l.id), "test")
	m := Message{Kind: MsgSync, Flags: FlagSnapshot, Epoch: 1, Zxid: one.core.LastZxid(), Seq: 7, Boot: one.core.opt.Boot, Nonce: one.core.vote.nonce}
	one.core.Recv(l.id, one.links[l.id], &m)
	if from, token := one.core.WantsSnapshot(); from != l.id || token != 7 {
		t.Errorf("wants snapshot %d of server %d, not 7 of server %d", token, from, l.id)
	}
	unwanted(other, 7)
	unwanted(l.id, 6)
	unwanted(l.id, 0)
	if !one.core.SnapshotReceived(l.id, 7, snap) || one.core.LastZxid() != snap.Zxid {
		t.Errorf("the history ends at %v, the leader's snapshot has %v", one.core.LastZxid(), snap.Zxid)
	}
	unwanted(l.id, 7)
	if _, token := one.core.WantsSnapshot(); token != 0 {
		t.Errorf("still wants snapshot %d", token)
	}
}

// TestNoServiceOverASnapshot: a follower that lags so far that it gets a snapshot serves no
// clients until it has caught up. Their watches and sessions would miss what the snapshot
// skips.
func TestNoServiceOverASnapshot(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	n.serve()
	one, l := n.server(1), n.leader()
	one.core.requestSync(one.core.peer(l.id), "test")
	m := Message{Kind: MsgSync, Flags: FlagSnapshot, Epoch: 1, Zxid: one.core.LastZxid(), Seq: 7, Boot: one.core.opt.Boot, Nonce: one.core.vote.nonce}
	one.core.Recv(l.id, one.links[l.id], &m)
	if role := one.core.Status().Role; role != SyncingFollower {
		t.Errorf("a server that waits for a snapshot is %v", role)
	}
}
