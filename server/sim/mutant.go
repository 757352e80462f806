package sim

// Mutant is a fault of the nodes, planted to see whether it is found. The faults of the
// core are in package zab, in builds with the tag zabmutants.
type Mutant uint8

// The mutants.
const (
	MutantNone            Mutant = iota
	MutantNoResync               // recovery does not make the log's end durable again
	MutantDirtySnapshot          // a snapshot includes uncommitted entries
	MutantEarlyInstall           // a received snapshot counts before its reference is durable
	MutantPurgeBase              // the log is purged beyond the newest snapshot
	MutantNoPostpone             // sessions expire right after a pause
	MutantSameIncarnation        // a wiped or restored disk keeps its incarnation
	MutantDamageUnseen           // a damaged log is taken for an intact one
	MutantOneLane                // heartbeats wait for everything sent before them
	MutantPurgeJoiners           // the log is purged although learners still need it
	MutantNoStartRecord          // a start does not write a record to the log
	MutantOutcomesNotKept        // a snapshot has no outcomes
	MutantResentBackwards        // a client sends writes again in another order
	MutantNotResent              // a client does not send writes again
	MutantReplayNotFed           // a history of changes lacks what a start replays
	MutantResetForgotten         // an installed snapshot does not end a history of changes
	MutantLateHello              // a link is admitted on which an end has said what is no longer true
	numMutants
)

var mutantNames = [numMutants]string{
	"none", "no-resync", "dirty-snapshot", "early-install", "purge-base", "no-postpone", "same-incarnation", "damage-unseen",
	"one-lane", "purge-joiners", "no-start-record",

	"outcomes-not-kept", "resent-backwards", "not-resent",
	"replay-not-fed", "reset-forgotten", "late-hello",
}

func (m Mutant) String() string { return mutantNames[m] }

// Mutants returns all of them.
func Mutants() (list []Mutant) {
	for m := MutantNone + 1; m < numMutants; m++ {
		list = append(list, m)
	}
	return list
}
