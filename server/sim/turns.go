package sim

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// turns is what the ghost knows of the requests that wait at a leader.
type turns struct {
	epoch uint32 // in which it is known
	// ahead is by how many requests the second connection is ahead of the first, since the
	// first one waits, counted from when it was least.
	ahead map[[2]uint64]int
}

// propose makes a leader propose waiting requests, and checks that the connections have their
// turns: F1.
func (s *Sim) propose(n *node) bool {
	if n.status.Role != zab.Leading || s.cfg.BigBytes > 0 {
		return n.rep.Propose()
	}
	if n.turns.epoch != n.status.Epoch {
		n.turns = turns{n.status.Epoch, make(map[[2]uint64]int)}
	}
	before := n.waiting()
	did := n.rep.Propose()
	if len(before) < 2 {
		clear(n.turns.ahead)
		return did
	}
	after := n.waiting()
	for waits := range before {
		for other := range before {
			pair := [2]uint64{waits, other}
			if after[waits] == 0 || waits == other {
				delete(n.turns.ahead, pair)
				continue
			}
			served := func(origin uint64) int { return before[origin] - after[origin] }
			n.turns.ahead[pair] = max(0, n.turns.ahead[pair]+served(other)-served(waits))
			if n.turns.ahead[pair] > 1 {
				s.fail("F1", "server %d evaluates %d requests of connection %#x ahead of those of %#x", n.id, n.turns.ahead[pair], other, waits)
			}
		}
	}
	return did
}

// waiting counts the waiting requests by connection, up to one that ends the session: these also wait
// for each other.
func (n *node) waiting() map[uint64]int {
	count, ended := make(map[uint64]int), make(map[uint64]bool)
	for sub := range n.rep.Waiting() {
		origin := sub.Request.Origin
		ended[origin] = ended[origin] || sub.Request.Op == jute.OpCloseSession
		if !ended[origin] {
			count[origin]++
		}
	}
	return count
}
