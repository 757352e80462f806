//go:build zabmutants

package mux

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/internal/mutant"
)

// TestMutants checks that the random streams notice each fault that is planted.
func TestMutants(t *testing.T) {
	planted := 0
	for _, m := range mutant.All() {
		if !strings.HasPrefix(m.String(), "mux-") {
			continue
		}
		planted++
		remove := m.Plant()
		found := false
		for seed := uint64(0); seed < 20 && !found; seed++ {
			synctest.Test(t, func(t *testing.T) { found = len(run(t, seed)) > 0 })
		}
		if !found {
			t.Errorf("no run finds %v", m)
		}
		remove()
	}
	t.Logf("counts: faults=%d", planted)
}
