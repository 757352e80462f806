package zab

import (
	"fmt"
	"testing"
)

// TestColdStart: in whatever order servers start, and however long each runs without the
// others, a quorum of them serves soon. To found an ensemble they wait an election timeout
// for the third server.
func TestColdStart(t *testing.T) {
	for seed := range uint64(300) {
		n := newNetwork(t, seed, 3, 0)
		r := n.rng
		n.fsync = 1 + r.IntN(10)
		order := r.Perm(3)
		n.servers[order[0]].start()
		n.run(r.IntN(3000))
		n.servers[order[1]].start()
		n.until(1300, fmt.Sprintf("seed %d: two servers, started as %v, serve", seed, order), n.settledDown)
		n.run(r.IntN(100))
		n.servers[order[2]].start()
		n.until(300, fmt.Sprintf("seed %d: three servers, started as %v, serve", seed, order), n.settledDown)
	}
}

// TestVoteWithoutData: a server without data votes in an ensemble that has some only for a candidate whose history lists it,
// and not at all if it has lost data.
func TestVoteWithoutData(t *testing.T) {
	list := Members{List: []Member{{ID: 1, Weight: 1}, {ID: 2, Weight: 1}, {ID: 3, Weight: 1}}}
	for _, tt := range []struct {
		flags   uint16
		damaged bool
		want    bool
	}{
		{FlagSeeded, false, false},
		{FlagSeeded | FlagListed, false, true},
		{FlagSeeded | FlagListed, true, false},
		{FlagSeeded, true, false},
	} {
		c := New(Options{ID: 1, Members: list, Init: ClusterInit{Cluster: ID{2}}}, Recovered{Incarnation: ID{7}, Damaged: tt.damaged})
		c.PeerUp(2, 1, Introduction{Incarnation: ID{8}})
		c.peer(2).seeded = true
		if c.selfCounts() {
			t.Fatal("a server without data counts beside one that has some")
		}
		if got := c.mayVote(c.peer(2), tt.flags|FlagAnchored); got != tt.want {
			t.Errorf("flags %#x, damaged %v: %v", tt.flags, tt.damaged, got)
		}
	}
}

// TestAnEpochIsOfferedWithOneHistory: also at the heartbeat at which a founder stops waiting for the third server's promise,
// and leads. The history that a leader has then, with the epoch's marker, is another one.
func TestAnEpochIsOfferedWithOneHistory(t *testing.T) {
	for seed := range uint64(20) {
		n := newNetwork(t, seed, 3, 0)
		for id := SID(1); id < 3; id++ {
			n.deaf[[2]SID{3, id}] = true
		}
		n.trace = func(from, _ SID, m *Message) {
			if m.Kind == MsgNewEpoch && m.Flags&FlagEstablished == 0 && m.Zxid.Epoch() == m.Epoch {
				t.Errorf("seed %d: server %d, which leads epoch %d, asks for its promise with the history up to %v", seed, from, m.Epoch, m.Zxid)
			}
		}
		for _, s := range n.servers {
			s.start()
		}
		n.until(3000, fmt.Sprintf("seed %d: two of three servers lead", seed), func() bool { return n.leader() != nil })
		n.run(200)
	}
}
