package feed

import "fmt"

// Mutant is a fault that can be injected into histories and feeds, in a build with the tag
// zabmutants: see replica.Mutant.
type Mutant uint8

const (
	afterDoubled   Mutant = iota + 1 // a feed begins with the changes of the zxid after which it is to begin
	untakenLost                      // a change that has no room in an event is lost
	partConfirmed                    // an event confirms a transaction of which more follows
	oldestTooLow                     // a history says that it has one transaction more than it has
	compactedEarly                   // a feed that has everything up to the oldest zxid ends
	anybodyDeleted                   // readers without permission get deletions
	chargeless                       // events cost no credit
	levelForgotten                   // a feed that needs several events for what is new does not precede replies
	lossUntold                       // a client is not told that it may no longer read a znode
	levelUntold                      // a client is told that a feed precedes replies when it has no credit
	placeKept                        // a feed that a client ends keeps its place
	endsEarly                        // a reader says of each change that it is the last one of its transaction
	endForgotten                     // a reader is not told that all of a transaction was read
	neighboursList                   // a change has the ACL list of the one before
	batchLost                        // the change with which a reader stops for a while is lost
	numMutants
)

var mutantNames = [...]string{
	afterDoubled:   "after-doubled",
	untakenLost:    "untaken-lost",
	partConfirmed:  "part-confirmed",
	oldestTooLow:   "oldest-too-low",
	compactedEarly: "compacted-early",
	anybodyDeleted: "anybody-deleted",
	chargeless:     "chargeless",
	levelForgotten: "level-forgotten",
	lossUntold:     "loss-untold",
	levelUntold:    "level-untold",
	placeKept:      "place-kept",
	endsEarly:      "ends-early",
	endForgotten:   "end-forgotten",
	neighboursList: "neighbours-list",
	batchLost:      "batch-lost",
}

func (m Mutant) String() string {
	if m > 0 && m < numMutants {
		return mutantNames[m]
	}
	return fmt.Sprintf("mutant(%d)", uint8(m))
}

// Mutants returns all mutants.
func Mutants() (list []Mutant) {
	for m := Mutant(1); m < numMutants; m++ {
		list = append(list, m)
	}
	return list
}
