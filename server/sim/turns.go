package sim

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/zab"
)

// turns is what the ghost knows of the requests that wait at a leader.
type turns struct {
	epoch uint32 // in which it is known
	// ahead is by how many bytes the requests of the second connection exceed those of the first,
	// since the first one waits, counted from when it was least.
	ahead   map[[2]uint64]int
	largest int // request
}

// propose makes a leader propose waiting requests, and checks that the connections have their
// turns: F1.
func (s *Sim) propose(n *node) bool {
	if n.status.Role != zab.Leading || s.cfg.BigBytes > 0 {
		return n.rep.Propose()
	}
	if n.turns.epoch != n.status.Epoch {
		n.turns = turns{epoch: n.status.Epoch, ahead: make(map[[2]uint64]int)}
	}
	before, _ := n.waiting()
	did := n.rep.Propose()
	if len(before) < 2 {
		clear(n.turns.ahead)
		return did
	}
	after, first := n.waiting()
	for waits := range before {
		for other := range before {
			pair := [2]uint64{waits, other}
			if after[waits] == 0 || waits == other || first[waits] == jute.OpCloseSession {
				delete(n.turns.ahead, pair)
				continue
			}
			served := func(origin uint64) int { return before[origin] - after[origin] }
			n.turns.ahead[pair] = max(0, n.turns.ahead[pair]+served(other)-served(waits))
			// A list that had its turn may have saved the size of one request, and one that waits may lack as much.
			if most := s.cfg.Turn + 2*n.turns.largest; n.turns.ahead[pair] > most {
				s.fail("F1", "server %d evaluates %d bytes of requests of connection %#x ahead of those of %#x", n.id, n.turns.ahead[pair], other, waits)
			}
		}
	}
	return did
}

// waiting returns the size of the waiting requests of each connection, and the operation of its first
// one. One that ends the session also waits for others of its kind.
func (n *node) waiting() (size map[uint64]int, first map[uint64]jute.OpCode) {
	size, first = make(map[uint64]int), make(map[uint64]jute.OpCode)
	for sub := range n.rep.Waiting() {
		origin := sub.Request.Origin
		if size[origin] == 0 {
			first[origin] = sub.Request.Op
		}
		size[origin] += int(sub.Size())
		n.turns.largest = max(n.turns.largest, int(sub.Size()))
	}
	return size, first
}
