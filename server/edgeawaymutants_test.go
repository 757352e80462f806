//go:build zabmutants

package server

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zkd-project/zkd/internal/mutant"
)

// TestMutantsOfAnEdgeAway checks that each fault that is planted into what an edge does without servers is found, but for those that need users, or
// subtrees that lag each other: edge and server/away have these.
func TestMutantsOfAnEdgeAway(t *testing.T) {
	elsewhere := []string{"away-lent", "away-backwards", "away-children", "away-outside", "away-guessed", "away-older", "away-write", "away-untold", "away-untimed"}
	planted := 0
	for _, m := range mutant.All() {
		if !strings.HasPrefix(m.String(), "away-") || slices.Contains(elsewhere, m.String()) {
			continue
		}
		planted++
		remove := m.Plant()
		found := ""
		for seed := uint64(1); seed <= 20 && found == ""; seed++ {
			synctest.Test(t, func(t *testing.T) {
				if r := runAway(t, seed); len(r.wrong) > 0 {
					found = r.wrong[0]
				}
			})
		}
		remove()
		if found == "" {
			t.Errorf("nothing finds %v", m)
		}
		t.Logf("%v: %s", m, found)
	}
	if planted != 8 {
		t.Errorf("%d faults", planted)
	}
	t.Logf("counts: faults=%d", planted)
}
