package zab

import (
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// TestEpochBeyondAll: a promise of an impossible epoch, which only a fault can have made,
// does not make a server promise less than it already has.
func TestEpochBeyondAll(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	n.serve()
	l, two := n.leader(), n.server(2)
	two.core.Recv(1, two.links[1], &Message{Kind: MsgPrevoteResp, Promise: 1<<32 - 1})
	l.crash()
	n.until(5000, "the others serve", n.settledDown)
	if e := n.leader().core.Status().Epoch; e != 2 {
		t.Errorf("the epoch is %d", e)
	}
}

// TestTwoSnapshots: a second snapshot comes while the first is being written.
func TestTwoSnapshots(t *testing.T) {
	n := newNetwork(t, 1, 3, 0)
	n.serve()
	one, l := n.server(1), n.leader()
	n.fsync = 20
	for i := range jute.Zxid(2) {
		state := one.state.Clone()
		state.skipTo(l.core.LastZxid() + 10*(i+1))
		one.core.requestSync(one.core.peer(l.id), "test")
		m := Message{Kind: MsgSync, Flags: FlagSnapshot, Epoch: 1, Zxid: one.core.LastZxid(), Seq: uint64(7 + i), Boot: one.core.opt.Boot, Nonce: one.core.vote.nonce}
		one.core.Recv(l.id, one.links[l.id], &m)
		one.core.SnapshotReceived(l.id, uint64(7+i), SnapInfo{Zxid: state.Zxid, State: state})
		one.core.Take(&one.out)
	}
	for seq := range one.core.lastSeq - one.core.persisted {
		one.core.PersistDone(one.core.persisted + 1)
		if err := one.core.Check(); err != nil {
			t.Errorf("batch %d: %v", seq, err)
		}
	}
	if one.core.log.durable != one.core.log.appended {
		t.Errorf("durable is %v, the last is %v", one.core.log.durable, one.core.log.appended)
	}
}
