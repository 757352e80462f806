//go:build zabmutants

package limits

import (
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/mutant"
)

// TestMutants checks that the simulation of shares notices each fault that is planted into them.
func TestMutants(t *testing.T) {
	finds := func() bool {
		for _, story := range stories {
			for seed := range uint64(25) {
				if story(t, seed+1) != "" {
					return true
				}
			}
		}
		return false
	}
	if finds() {
		t.Fatal("the simulation fails without a fault")
	}
	all := mutant.All()
	if !slices.Contains(all, wordForEver) || len(all) != 5 {
		t.Errorf("the faults are %v", all)
	}
	for _, m := range all {
		remove := m.Plant()
		if !finds() {
			t.Errorf("the simulation does not find %v", m)
		}
		remove()
	}
}
