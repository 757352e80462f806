//go:build zabmutants

package sim

import (
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/mutant"
)

// TestMutants plants each fault of the packages that the simulator runs. A script or a random run must find it.
func TestMutants(t *testing.T) {
	for _, m := range mutant.All() {
		if slices.Contains(byPages, m.String()) {
			continue
		}
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

// byPages are faults of package line that its pages find: see TestMutants there.
var byPages = []string{
	"other-kept",
	"closer-killed",
	"closed-open",
	"bound-kept",
	"silent-ended",
	"earlier-admitted",
	"unowned-kept",
	"ahead-served",
	"closing-served",
	"requested-timeout",
	"confirmed-replayed",
	"touched-now",
	"arriving-missed",
	"local-reported",
	"not-upgraded",
	"stays-local",
	"resumer-kept",
	"local-kept",
	"slow-kept",
	"slow-reads-kept",
}
