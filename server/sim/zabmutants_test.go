//go:build zabmutants

package sim

import (
	"testing"

	"github.com/zkd-project/zkd/internal/mutant"
)

// TestMutants plants each fault of the packages that the simulator runs. A script or a random run must find it.
func TestMutants(t *testing.T) {
	for _, m := range mutant.All() {
		testMutant(t, mutation{name: m.String(), plant: m.Plant})
	}
}

// TestFindersHaveMutants checks that the mutant of each focus and of each script exists.
func TestFindersHaveMutants(t *testing.T) {
	known := make(map[string]bool)
	for _, m := range Mutants() {
		known[m.String()] = true
	}
	for _, m := range mutant.All() {
		known[m.String()] = true
	}
	for name := range focuses {
		if !known[name] {
			t.Errorf("focuses has %q, which is no mutant", name)
		}
	}
	for name := range directed {
		if !known[name] {
			t.Errorf("directed has %q, which is no mutant", name)
		}
	}
}
