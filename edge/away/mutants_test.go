//go:build zabmutants

package away

import (
	"testing"

	"github.com/zkd-project/zkd/internal/mutant"
)

// TestMutants checks that each fault that is planted into a session is found.
func TestMutants(t *testing.T) {
	planted := mutant.All()
	own := 0
	for _, m := range planted {
		if len(m.String()) < 5 || m.String()[:5] != "away-" {
			continue
		}
		own++
		remove := m.Plant()
		found := false
		for seed := uint64(1); seed <= 500 && !found; seed++ {
			found = len(randomRun(seed).wrong) > 0
		}
		if !found {
			t.Errorf("nothing finds %v", m)
		}
		remove()
	}
	if own != 9 {
		t.Errorf("%d faults", own)
	}
	t.Logf("counts: faults=%d", own)
}
