//go:build zabmutants

package sim

import (
	"testing"

	"github.com/zkd-project/zkd/server/zab"
)

// TestMutants plants each fault of the core. A script or a random run must find it.
func TestMutants(t *testing.T) {
	for _, m := range zab.Mutants() {
		testMutant(t, mutation{name: m.String(), inCore: func(on bool) {
			zab.SetMutant(0)
			if on {
				zab.SetMutant(m)
			}
		}})
	}
}
