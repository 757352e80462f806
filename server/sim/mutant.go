package sim

// Mutant is a fault of the nodes themselves, planted to see whether it is found.
// Those of the core are in package zab, in builds with the tag zabmutants.
type Mutant uint8

// The mutants.
const (
	MutantNone            Mutant = iota
	MutantNoResync               // recovery does not make the log's end durable again
	MutantDirtySnapshot          // a snapshot has what is not committed
	MutantEarlyInstall           // a received snapshot counts before its reference is durable
	MutantPurgeBase              // the log is purged beyond the newest snapshot
	MutantReplyUnordered         // answers leave in another order than requests came
	MutantNoPostpone             // sessions expire right after a pause
	MutantSameIncarnation        // a wiped or restored disk keeps its name
	MutantDamageUnseen           // a damaged log passes for a whole one
	MutantOneLane                // heartbeats wait for all that was sent before them
	MutantPurgeJoiners           // the log is purged without a thought of who is being brought up to date
	MutantNoStartRecord          // a start does not write a record to the log
	numMutants
)

var mutantNames = [numMutants]string{
	"none", "no-resync", "dirty-snapshot", "early-install", "purge-base", "reply-unordered", "no-postpone", "same-incarnation", "damage-unseen",
	"one-lane", "purge-joiners", "no-start-record",
}

func (m Mutant) String() string { return mutantNames[m] }

// Mutants returns all of them.
func Mutants() (list []Mutant) {
	for m := MutantNone + 1; m < numMutants; m++ {
		list = append(list, m)
	}
	return list
}
