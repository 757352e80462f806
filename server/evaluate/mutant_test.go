//go:build zabmutants

package evaluate_test

import (
	"os"
	"testing"

	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/internal/testing/scenario"
	"github.com/zkd-project/zkd/server/evaluate"
)

// TestMutantsByPages checks that the page about memory notices these faults. Runs of the simulator find the others.
func TestMutantsByPages(t *testing.T) {
	text, err := os.ReadFile("testdata/room.txt")
	if err != nil {
		t.Fatal(err)
	}
	deviates := func() bool {
		d := &driver{t: t, world: newWorld(t, defaults)}
		return scenario.Deviates(string(text), d.command)
	}
	if deviates() {
		t.Fatal("the page is not so without a fault")
	}
	for _, m := range []mutant.Mutant{evaluate.PendingNotCounted, evaluate.ShrinkingRefused} {
		remove := m.Plant()
		if !deviates() {
			t.Errorf("the page does not find %v", m)
		}
		remove()
	}
}
