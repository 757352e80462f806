package datatree

import (
	"math/rand/v2"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
)

// A walk over a changing set visits all elements that are in the set for the whole walk.
func TestWalkOverASetThatChanges(t *testing.T) {
	first := seeds.First(t)
	for i := range uint64(2000) {
		seed := first + i
		rng := rand.New(rand.NewPCG(seed, 0))
		var s idSet
		next := nodeID(1)
		stays := map[nodeID]bool{} // in the set since the beginning; the value is whether it was visited
		for range rng.IntN(50) {
			s.add(next)
			stays[next] = false
			next++
		}
		for left := s.len(); left > 0; {
			left = s.walk(left, 1+rng.IntN(4), func(id nodeID) {
				if !s.has(id) {
					t.Fatalf("seed %#x: visited %d, which is not in the set", seed, id)
				}
				if _, ok := stays[id]; ok {
					stays[id] = true
				}
			})
			for range rng.IntN(4) {
				if s.len() > 0 && rng.IntN(2) == 0 {
					id := s.list[rng.IntN(s.len())]
					s.remove(id)
					delete(stays, id)
				} else {
					s.add(next)
					next++
				}
			}
		}
		for id, visited := range stays {
			if !visited {
				t.Fatalf("seed %#x: the walk did not visit %d", seed, id)
			}
		}
	}
}
