package zab

import "fmt"

// Mutant is a deliberate fault in the core, in a build with the tag zabmutants. Each mutant
// removes one rule that safety depends on, and the simulator must notice. In other builds
// the compiler removes them.
type Mutant uint8

const (
	ackBeforeFsync Mutant = iota + 1
	ackEpochBeforeFsync
	newEpochBeforeFsync
	leaderCountsBeforeFsync
	oldEpochByCounting
	promiseWithoutHistory
	epochReusedAfterRestart
	promiseRepointed
	appendWithoutPrev
	staleSyncObeyed
	wipedVotes
	damagedCounted
	observerCounted
	oneConfigQuorum
	readWithoutRound
	readRoundTooEarly
	counterWraps
	renewalWithoutQuorum
	transferWithoutAck
	hintAheadOfCommit
	gapCheckByPing
	followRestarts
	fileDecides
	markerWithoutList
	markerReplacesList
	filesNotCompared
	oneFileMoves
	doubtedHeard
	oldCopyTrusted
	grownCopyTrusted
	notesNotWritten
	doubtNotTold
	positionBeforeFsync
	higherEpochIgnored
	unboundedLease
	changeWithoutQuorum
	secondChange
	changeForgotten
	promisedStands
	roundsCutShort
	ignoredEndlessly
	oldLinkAnswered
	earlierEchoConfirms
	founderVotes
)

var mutantNames = [...]string{
	ackBeforeFsync:          "ack-before-fsync",
	ackEpochBeforeFsync:     "ackepoch-before-fsync",
	newEpochBeforeFsync:     "newepoch-before-fsync",
	leaderCountsBeforeFsync: "leader-counts-itself-before-fsync",
	oldEpochByCounting:      "old-epoch-committed-by-counting",
	promiseWithoutHistory:   "promise-without-history-check",
	epochReusedAfterRestart: "epoch-reused-after-restart",
	promiseRepointed:        "promise-repointed",
	appendWithoutPrev:       "append-without-prev-check",
	staleSyncObeyed:         "stale-sync-obeyed",
	wipedVotes:              "wiped-server-votes",
	damagedCounted:          "damaged-counted-before-admit",
	observerCounted:         "observer-counted",
	oneConfigQuorum:         "one-configs-quorum",
	readWithoutRound:        "read-without-round",
	readRoundTooEarly:       "read-round-too-early",
	counterWraps:            "counter-wraps",
	renewalWithoutQuorum:    "renewal-without-quorum",
	transferWithoutAck:      "transfer-without-ack",
	hintAheadOfCommit:       "hint-ahead-of-commit",
	gapCheckByPing:          "gap-check-by-ping",
	followRestarts:          "follow-restarts",
	fileDecides:             "file-decides",
	markerWithoutList:       "marker-without-list",
	markerReplacesList:      "marker-replaces-list",
	filesNotCompared:        "files-not-compared",
	oneFileMoves:            "one-file-moves-the-ensemble",
	doubtedHeard:            "doubted-server-heard",
	oldCopyTrusted:          "old-copy-trusted",
	grownCopyTrusted:        "grown-old-copy-trusted",
	notesNotWritten:         "notes-not-written",
	doubtNotTold:            "doubt-not-told",
	positionBeforeFsync:     "position-before-fsync",
	higherEpochIgnored:      "higher-epoch-ignored",
	unboundedLease:          "unbounded-lease",
	changeWithoutQuorum:     "change-without-quorum",
	secondChange:            "second-change",
	changeForgotten:         "change-forgotten",
	promisedStands:          "promised-stands",
	roundsCutShort:          "rounds-cut-short",
	ignoredEndlessly:        "ignored-endlessly",
	oldLinkAnswered:         "old-link-answered",
	earlierEchoConfirms:     "earlier-echo-confirms",
	founderVotes:            "founder-votes",
}

func (m Mutant) String() string {
	if int(m) < len(mutantNames) && m > 0 {
		return mutantNames[m]
	}
	return fmt.Sprintf("mutant(%d)", uint8(m))
}

// Mutants returns all of them.
func Mutants() []Mutant {
	list := make([]Mutant, 0, len(mutantNames)-1)
	for m := ackBeforeFsync; int(m) < len(mutantNames); m++ {
		list = append(list, m)
	}
	return list
}
