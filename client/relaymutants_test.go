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
	found := func(run func(*testing.T, uint64) []string) (found bool) {
		for seed := uint64(0); seed < 100 && !found; seed++ {
			synctest.Test(t, func(t *testing.T) { found = len(run(t, seed)) > 0 })
		}
		return found
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
			run = func(t *testing.T, seed uint64) []string {
				wrong, _ := runMemory(t, seed)
				return wrong
			}
		}
		if !found(run) {
			t.Errorf("no run finds %v", m)
		}
		remove()
	}
	if planted != 22 {
		t.Errorf("%d faults", planted)
	}
	t.Logf("counts: faults=%d", planted)
}
