package datadirs

import "fmt"

// Mutant is a fault that can be injected into the decisions, in a build with the tag
// zabmutants: see replica.Mutant.
type Mutant uint8

const (
	lossCounts Mutant = iota + 1
	lossForgotten
	halfCounts
	missingIsLost
	othersRemoved
	ownerLate
	rolesIgnored
)

var mutantNames = [...]string{
	lossCounts:    "loss-counts",
	lossForgotten: "loss-forgotten",
	halfCounts:    "half-counts",
	missingIsLost: "missing-is-lost",
	othersRemoved: "others-removed",
	ownerLate:     "owner-late",
	rolesIgnored:  "roles-ignored",
}

func (m Mutant) String() string {
	if int(m) < len(mutantNames) && m > 0 {
		return mutantNames[m]
	}
	return fmt.Sprintf("mutant(%d)", uint8(m))
}

// Mutants returns all mutants.
func Mutants() []Mutant {
	list := make([]Mutant, 0, len(mutantNames)-1)
	for m := lossCounts; int(m) < len(mutantNames); m++ {
		list = append(list, m)
	}
	return list
}
