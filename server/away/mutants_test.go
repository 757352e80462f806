//go:build zabmutants

package away

import (
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/mutant"
)

// TestMutants checks that each fault that is planted into a session is found, and nothing without one.
func TestMutants(t *testing.T) {
	find := func() (found bool) {
		for seed := uint64(1); seed <= 500 && !found; seed++ {
			found = len(randomRun(seed).wrong) > 0
		}
		return found
	}
	if find() {
		t.Fatal("a run finds something without a fault")
	}
	own := 0
	for _, m := range mutant.All() {
		if !strings.HasPrefix(m.String(), "away-") && !strings.HasPrefix(m.String(), "read-only-") {
			continue
		}
		own++
		remove := m.Plant()
		if !find() {
			t.Errorf("nothing finds %v", m)
		}
		remove()
	}
	if own != 10 {
		t.Errorf("%d faults", own)
	}
	t.Logf("counts: faults=%d", own)
}
