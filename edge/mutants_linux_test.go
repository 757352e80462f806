//go:build zabmutants

package edge

import (
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/mutant"
)

// TestMutants checks that each fault that is planted into the identities of clients is found.
func TestMutants(t *testing.T) {
	planted := 0
	for _, m := range mutant.All() {
		if !strings.HasPrefix(m.String(), "identity-") && !strings.HasPrefix(m.String(), "user-") && m != awayLent {
			continue
		}
		planted++
		t.Run(m.String(), func(t *testing.T) {
			defer m.Plant()()
			if len(wrongTables()) == 0 && len(wrongHandovers(t)) == 0 && len(wrongUsers(t)) == 0 && len(wrongMemories(t)) == 0 && len(wrongAwayUsers(t)) == 0 {
				t.Error("nothing finds it")
			}
		})
	}
	if planted != 11 {
		t.Errorf("%d faults", planted)
	}
	t.Logf("counts: faults=%d", planted)
}
