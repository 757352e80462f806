//go:build zabmutants

package client

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/internal/mutant"
)

// TestMutants checks that the random runs of a relay notice each fault that is planted into it.
func TestMutants(t *testing.T) {
	found := func(run func(*testing.T, uint64) []string, seeds uint64) (found bool) {
		for seed := uint64(0); seed < seeds && !found; seed++ {
			synctest.Test(t, func(t *testing.T) { found = len(run(t, seed)) > 0 })
		}
		return found
	}
	ofMemory := func(t *testing.T, seed uint64) []string {
		wrong, _ := runMemory(t, seed)
		return append(wrong, runHeard(t, seed)...)
	}
	if found(runRelay, 100) || found(ofMemory, 100) { // such a run would find any fault
		t.Fatal("a run without a fault is wrong")
	}
	planted := 0
	for _, m := range mutant.All() {
		if !strings.HasPrefix(m.String(), "relay-") {
			continue
		}
		planted++
		remove := m.Plant()
		run := runRelay
		if strings.HasPrefix(m.String(), "relay-memory-") {
			run = ofMemory
		}
		if !found(run, 2000) { // the order of goroutines differs from run to run
			t.Errorf("no run finds %v", m)
		}
		remove()
	}
	if planted != 27 {
		t.Errorf("%d faults", planted)
	}
	t.Logf("counts: faults=%d", planted)
}
