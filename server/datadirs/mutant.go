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
	allCommitted  = mutant.New("all-committed")  // a start applies entries that may not be committed
	purgeBase     = mutant.New("purge-base")     // the log begins at the newest snapshot, and older ones are kept
	purgeJoiners  = mutant.New("purge-joiners")  // the log is purged although learners need it
	twoKept       = mutant.New("two-kept")       // a purge of a full disk keeps two snapshots
	snapshotAgain = mutant.New("snapshot-again") // a snapshot that is to make room is asked for at the zxid of the last one
)
