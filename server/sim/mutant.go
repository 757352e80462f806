package sim

// Mutant is a fault of the nodes, planted to see whether it is found. The faults of the
// core are in package zab, in builds with the tag zabmutants.
type Mutant uint8

// The mutants.
const (
	MutantNone                  Mutant = iota
	MutantNoResync                     // recovery does not make the log's end durable again
	MutantDirtySnapshot                // a snapshot includes uncommitted entries
	MutantEarlyInstall                 // a received snapshot counts before its reference is durable
	MutantPurgeBase                    // the log is purged beyond the newest snapshot
	MutantReplyUnordered               // answers leave in another order than requests came
	MutantNoPostpone                   // sessions expire right after a pause
	MutantSameIncarnation              // a wiped or restored disk keeps its incarnation
	MutantDamageUnseen                 // a damaged log is taken for an intact one
	MutantOneLane                      // heartbeats wait for everything sent before them
	MutantPurgeJoiners                 // the log is purged although learners still need it
	MutantNoStartRecord                // a start does not write a record to the log
	MutantEventLate                    // an event leaves after the answers that show the change
	MutantRelativeIgnored              // setWatches does not look for what the client has missed
	MutantFiresTwice                   // each event is sent twice
	MutantConnsKept                    // connections survive a snapshot that replaces the tree
	MutantReportTwice                  // a report looks at live and at ended connections at different times
	MutantTouchesForgotten             // the last touches of connections that end with the role are not reported
	MutantPersistentNotRestored        // setWatches forgets persistent watches
	MutantPersistentOnce               // the table forgets a persistent watch that has fired
	MutantMovedKept                    // a connection survives at its server when another one becomes the owner of its session
	MutantNotAgain                     // requests are not submitted again in the next service
	MutantAgainBackwards               // they are, in another order
	MutantNotPassed                    // an answer that was lost is not made up for
	MutantUnownedKept                  // connections wait for the next service although the history does not say that their sessions are theirs
	MutantNotReplayed                  // outcomes of writes are not sent to the next connection
	MutantDoneBehind                   // a client is told that its last write is not done
	MutantDoneEarly                    // a client is told what was done when it connected, and not when its session was resumed
	MutantReplayOfAnother              // a client is told the outcomes of another session
	MutantOutcomesNotKept              // a snapshot has no outcomes
	MutantResentBackwards              // a client sends writes again in another order
	MutantNotResent                    // a client does not send writes again
	MutantReplayNotFed                 // a history of changes lacks what a start replays
	MutantResetForgotten               // an installed snapshot does not end a history of changes
	MutantFeedLate                     // feeds do not precede what shows their changes
	MutantFeederAsleep                 // nobody looks at feeds when there are changes
	MutantLateHello                    // a link is admitted on which an end has said what is no longer true
	MutantViewKept                     // views stay open when their connections end
	MutantChangeAgain                  // a change of the members is submitted again although it may have been made
	numMutants
)

var mutantNames = [numMutants]string{
	"none", "no-resync", "dirty-snapshot", "early-install", "purge-base", "reply-unordered", "no-postpone", "same-incarnation", "damage-unseen",
	"one-lane", "purge-joiners", "no-start-record", "event-late", "relative-ignored", "fires-twice", "conns-kept", "report-twice",
	"touches-forgotten", "persistent-not-restored", "persistent-once", "moved-kept",
	"not-again", "again-backwards", "not-passed", "unowned-kept",
	"not-replayed", "done-behind", "done-early", "replay-of-another", "outcomes-not-kept", "resent-backwards", "not-resent",
	"replay-not-fed", "reset-forgotten", "feed-late", "feeder-asleep", "late-hello",
	"view-kept", "change-again",
}

func (m Mutant) String() string { return mutantNames[m] }

// Mutants returns all of them.
func Mutants() (list []Mutant) {
	for m := MutantNone + 1; m < numMutants; m++ {
		list = append(list, m)
	}
	return list
}
