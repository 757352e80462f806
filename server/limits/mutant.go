package limits

import "github.com/zkd-project/zkd/internal/mutant"

// Faults of a server that shares limits. The simulation of the tests must notice each.
var (
	wordForEver = mutant.New("word-for-ever") // a share holds without a word of the leader
	waitsUntold = mutant.New("waits-untold")  // a report does not say that clients wait
)
