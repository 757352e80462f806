//go:build zabmutants

package watch

import (
	"math/rand/v2"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// TestMutants checks that TestTwin would notice an event whose rest is looked for at a watch that is gone.
func TestMutants(t *testing.T) {
	defer cursorStays.Plant()()
	for seed := range uint64(20) {
		if !herdIsTold(seed) {
			return
		}
	}
	t.Errorf("no herd finds %v", cursorStays)
}

// herdIsTold fires an event in parts, and reports whether all are told but those who leave meanwhile.
func herdIsTold(seed uint64) (told bool) {
	defer func() {
		if recover() != nil {
			told = false
		}
	}()
	const herd = 40
	rng, table := rand.New(rand.NewPCG(seed, 1)), New()
	for w := range Watcher(herd) {
		table.Add(w, "/a", Persistent)
	}
	var heard, left [herd]bool
	for f := NewFiring(jute.EventDataChanged, "/a"); table.Fire(&f, 3, func(w Watcher) { heard[w] = true }); {
		w := Watcher(rng.IntN(herd))
		table.Drop(w)
		left[w] = true
	}
	for w := range heard {
		if !heard[w] && !left[w] {
			return false
		}
	}
	return true
}
