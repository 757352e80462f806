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
