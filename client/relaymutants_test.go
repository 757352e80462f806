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
	found := func() (found bool) {
		for seed := uint64(0); seed < 100 && !found; seed++ {
			synctest.Test(t, func(t *testing.T) { found = len(runRelay(t, seed)) > 0 })
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
		if !found() {
			t.Errorf("no run finds %v", m)
		}
		remove()
	}
	if planted != 17 {
		t.Errorf("%d faults", planted)
	}
	t.Logf("counts: faults=%d", planted)
}
