package datadirs

import "github.com/zkd-project/zkd/internal/mutant"

// Faults of the decisions.
var (
	lossCounts    = mutant.New("loss-counts")
	lossForgotten = mutant.New("loss-forgotten")
	halfCounts    = mutant.New("half-counts")
	missingIsLost = mutant.New("missing-is-lost")
	othersRemoved = mutant.New("others-removed")
	ownerLate     = mutant.New("owner-late")
	rolesIgnored  = mutant.New("roles-ignored")
)
