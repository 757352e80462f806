package evaluate

import "fmt"

// Mutant is a fault that can be injected into the evaluation, in a build with the tag
// zabmutants: see replica.Mutant.
type Mutant uint8

const (
	holderOfTree      Mutant = iota + 1 // holders are looked up in the tree, without what is accepted
	anyContender                        // each contender holds
	holderUnchecked                     // an entry for a holder allows everybody
	ownerOfTree                         // owners of sessions are looked up in the tree, without what is accepted
	subtreeOfTree                       // a deleteTree misses what is accepted
	limitIgnored                        // a deleteTree has no limit
	absentOfTree                        // a checkAbsent looks in the tree, without what is accepted
	setsAnothers                        // a createOrSet sets the ephemeral of another session
	doneAgain                           // the last write of an exactly-once session is done again
	acceptedForgotten                   // so is one that is accepted and not applied
)

var mutantNames = [...]string{
	holderOfTree:    "holder-of-tree",
	anyContender:    "any-contender",
	holderUnchecked: "holder-unchecked",
	ownerOfTree:     "owner-of-tree",
	subtreeOfTree:   "subtree-of-tree",
	limitIgnored:    "limit-ignored",
	absentOfTree:    "absent-of-tree",
	setsAnothers:    "sets-anothers",

	doneAgain:         "done-again",
	acceptedForgotten: "accepted-forgotten",
}

func (m Mutant) String() string {
	if int(m) < len(mutantNames) && m > 0 {
		return mutantNames[m]
	}
	return fmt.Sprintf("mutant(%d)", uint8(m))
}

// Mutants returns all mutants.
func Mutants() []Mutant {
	return []Mutant{holderOfTree, anyContender, holderUnchecked, ownerOfTree,
		subtreeOfTree, limitIgnored, absentOfTree, setsAnothers, doneAgain, acceptedForgotten}
}
