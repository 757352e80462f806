package shares

import "github.com/zkd-project/zkd/internal/mutant"

// Faults of a leader that divides limits. The simulation in package limits must notice each.
var (
	wholeForEach      = mutant.New("whole-for-each")     // each server gets the whole limit
	waitsIgnored      = mutant.New("waits-ignored")      // a server whose clients wait gets no more than they use
	divisionForgotten = mutant.New("division-forgotten") // a limit is not divided any more as soon as it is not used up
)
