//go:build zabmutants

package copies

import (
	"testing"

	"github.com/zkd-project/zkd/internal/mutant"
)

// TestMutants checks that TestRules notices each fault that is planted into the rules.
func TestMutants(t *testing.T) {
	for _, m := range []mutant.Mutant{anyHistory, anyStream, anyState, earlierState, unsettledSent, circleFollowed, earlyComplete, anyRetirement, untoldLoss, unequalMembers, sameEnsemble,
		epochsNotAhead, firstForgotten, markersForgotten, markNotReached, staleIsNew, staysRetired} {
		remove := m.Plant()
		if len(broken()) == 0 {
			t.Errorf("no rule is broken by %v", m)
		}
		remove()
	}
}
