package sim

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// closing is what the ghost knows of the closing of a session that a leader has proposed, or of another short request.
type closing struct {
	zxid jute.Zxid
	size int64 // as replica.Limits counts it
}

// checkClosings checks that a leader proposes the closing of a session only while those that it has
// proposed, and not applied, are within the bound: B3.
func (s *Sim) checkClosings(n *node) {
	if s.cfg.Closings == 0 || n.core.Status().Role != zab.Leading {
		n.closings = nil
		return
	}
	n.closings = slices.DeleteFunc(n.closings, func(c closing) bool { return c.zxid <= n.applied })
	for i := range n.out.Persist {
		op := &n.out.Persist[i]
		data := op.Entry.Txn()
		if op.Kind != zab.LogAppend || data == nil || s.ghost.established[op.Entry.Zxid.Epoch()] != n.id {
			continue
		}
		txn := &s.txn
		s.decode(&op.Entry, txn)
		if len(txn.Ops) != 1 || txn.Ops[0].Kind != datatree.OpCloseSession {
			continue
		}
		var underWay int64
		for _, c := range n.closings {
			underWay += c.size
		}
		if underWay >= s.cfg.Closings {
			s.fail("B3", "server %d closes session %v while %d closings of size %d are under way", n.id, txn.Session, len(n.closings), underWay)
		}
		size := int64(1+len(data)/256+len(txn.Ops[0].Paths)) * 256
		n.closings = append(n.closings, closing{op.Entry.Zxid, size})
		s.stats.Closings++
	}
}

// checkShort checks that a leader that several subjects wait for proposes a short request only while those that it has proposed
// then, and that are not committed, are within the bound: B4.
func (s *Sim) checkShort(n *node) {
	if s.cfg.Short == 0 || n.core.Status().Role != zab.Leading {
		n.short = nil
		return
	}
	n.short = slices.DeleteFunc(n.short, func(c closing) bool { return c.zxid <= n.core.Committed() })
	for i := range n.out.Persist {
		op := &n.out.Persist[i]
		data := op.Entry.Txn()
		if !n.turns.mixed || op.Kind != zab.LogAppend || len(data) >= 4096 || data == nil || s.ghost.established[op.Entry.Zxid.Epoch()] != n.id {
			continue
		}
		txn := &s.txn
		s.decode(&op.Entry, txn)
		if len(txn.Ops) != 1 || txn.Ops[0].Kind != datatree.OpSetData && txn.Ops[0].Kind != datatree.OpCreate && txn.Ops[0].Kind != datatree.OpDelete {
			continue // also the resumption of a session that was unknown, which waits for no turn
		}
		var underWay int64
		for _, c := range n.short {
			underWay += c.size
		}
		if underWay >= s.cfg.Short {
			s.fail("B4", "server %d proposes %v while %d bytes of %d short requests are under way", n.id, op.Entry.Zxid, underWay, len(n.short))
		}
		n.short = append(n.short, closing{op.Entry.Zxid, int64(len(data)) + 256})
		s.stats.Short++
	}
}
