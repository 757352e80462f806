//go:build zabmutants

package subtrees

import (
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/mutant"
)

// TestMutants checks that each fault that is planted into a table is found, and nothing without one.
func TestMutants(t *testing.T) {
	if wrong := wrongCases(); len(wrong) > 0 {
		t.Fatalf("without a fault: %v", wrong)
	}
	planted := 0
	for _, m := range mutant.All() {
		if !strings.HasPrefix(m.String(), "memory-") {
			continue
		}
		planted++
		remove := m.Plant()
		if len(wrongCases()) == 0 {
			t.Errorf("nothing finds %v", m)
		}
		remove()
	}
	if planted != 5 {
		t.Errorf("%d faults", planted)
	}
	t.Logf("counts: faults=%d", planted)
}
