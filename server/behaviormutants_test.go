//go:build zabmutants

package server

import (
	"flag"
	"testing"

	"github.com/zkd-project/zkd/internal/mutant"
)

var mutantFlag = flag.String("mutant", "", "TestPlantedBehaviors: the fault to plant")

// TestPlantedBehaviors is TestBehaviors with a planted fault, if -behaviors says where to. TLC must refuse one of the runs.
func TestPlantedBehaviors(t *testing.T) {
	for _, m := range mutant.All() {
		if *behaviorsFlag != "" && m.String() == *mutantFlag {
			defer m.Plant()()
			TestBehaviors(t)
		}
	}
}
