//go:build zabmutants

package sim

import (
	"testing"

	"github.com/zkd-project/zkd/server/zab"
)

// TestMutants puts each fault into the core, which some run must find. It needs
// the tag zabmutants, and minutes.
func TestMutants(t *testing.T) {
	for _, m := range zab.Mutants() {
		if *mutantFlag != "" && *mutantFlag != m.String() {
			continue
		}
		t.Run(m.String(), func(t *testing.T) {
			zab.SetMutant(m)
			defer zab.SetMutant(0)
			hunt(t, m.String(), func(*Config) {})
		})
	}
}
