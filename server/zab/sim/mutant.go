package sim

// Mutant is a fault of the nodes themselves, planted to see whether it is found.
// Those of the core are in package zab, in builds with the tag zabmutants.
type Mutant uint8

// The mutants.
const (
	MutantNone             Mutant = iota
	MutantNoResync                // recovery does not make the log's end durable again
	MutantDirtySnapshot           // a snapshot has what is not committed
	MutantEarlyInstall            // a received snapshot counts before its reference is durable
	MutantPurgeBase               // the log is purged beyond the newest snapshot
	MutantReplyEarly              // a write is answered before it is committed
	MutantReplyUnordered          // answers leave in another order than requests came
	MutantSyncOnlyIndex           // a sync is answered before what it waits for is applied
	MutantTrackerOutlives         // a server that does not lead any more lets sessions expire
	MutantNoPostpone              // sessions expire right after a pause
	MutantExpiredEarly            // a client is told that its session expired before the close is committed
	MutantNoSessionCheck          // ephemerals are made without a look at the session
	MutantDoubleClose             // a session is closed twice
	MutantSameIncarnation         // a wiped or restored disk keeps its name
	MutantDamageUnseen            // a damaged log passes for a whole one
	MutantNoLease                 // servers answer alone whenever they like
	MutantNoHold                  // sessions expire without a thought of what others have not reported
	MutantTimeoutForgotten        // the timeout of a resumption is known to the leader alone
	MutantOneLane                 // heartbeats wait for all that was sent before them
	MutantConfirmedFirst          // confirmations of barriers overtake these
	MutantPurgeJoiners            // the log is purged without a thought of who is being brought up to date
	MutantNoStartRecord           // a start does not write a record to the log
	numMutants
)

var mutantNames = [numMutants]string{
	"none", "no-resync", "dirty-snapshot", "early-install", "purge-base", "reply-early", "reply-unordered", "sync-only-index",
	"tracker-outlives", "no-postpone", "expired-early", "no-session-check", "double-close", "same-incarnation", "damage-unseen",
	"no-lease", "no-hold", "timeout-forgotten", "one-lane", "confirmed-first", "purge-joiners", "no-start-record",
}

func (m Mutant) String() string { return mutantNames[m] }

// Mutants returns all of them.
func Mutants() (list []Mutant) {
	for m := MutantNone + 1; m < numMutants; m++ {
		list = append(list, m)
	}
	return list
}
