//go:build zabmutants

package auth_test

import (
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/mutant"
)

// TestMutants checks that each fault that is planted into the rules of edges is found.
func TestMutants(t *testing.T) {
	planted := 0
	for _, m := range mutant.All() {
		if !strings.HasPrefix(m.String(), "edge-") {
			continue
		}
		planted++
		remove := m.Plant()
		if len(wrongEdges(t)) == 0 {
			t.Errorf("nothing finds %v", m)
		}
		remove()
	}
	if planted != 9 {
		t.Errorf("%d faults", planted)
	}
	t.Logf("counts: faults=%d", planted)
}
