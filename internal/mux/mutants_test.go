//go:build zabmutants

package mux

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/internal/mutant"
)

// TestMutants checks that the random streams, or a silent connection, notice each fault that is planted, and nothing without one.
func TestMutants(t *testing.T) {
	find := func() (found bool) {
		for seed := uint64(0); seed < 20 && !found; seed++ {
			synctest.Test(t, func(t *testing.T) { found = len(run(t, seed)) > 0 })
		}
		if !found {
			synctest.Test(t, func(t *testing.T) { found = len(wrongSilence(t)) > 0 || len(wrongPings(t)) > 0 })
		}
		return found
	}
	if find() {
		t.Fatal("a run finds something without a fault")
	}
	planted := 0
	for _, m := range mutant.All() {
		if !strings.HasPrefix(m.String(), "mux-") {
			continue
		}
		planted++
		remove := m.Plant()
		if !find() {
			t.Errorf("nothing finds %v", m)
		}
		remove()
	}
	if planted != 7 {
		t.Errorf("%d faults", planted)
	}
	t.Logf("counts: faults=%d", planted)
}
