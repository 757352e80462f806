package replica

import (
	"github.com/zkd-project/zkd/internal/mutant"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
)

// Faults of a replica. Each one removes one rule, and the simulator must notice.
var (
	barrierEarly         = mutant.New("barrier-early")
	expiredEarly         = mutant.New("expired-early")
	leaseForEver         = mutant.New("no-lease")
	nothingHeld          = mutant.New("no-hold")
	timeoutForgotten     = mutant.New("timeout-forgotten")
	confirmedFirst       = mutant.New("confirmed-first")
	doubleClose          = mutant.New("double-close")
	noSessionCheck       = mutant.New("no-session-check")
	replyBeforeCommit    = mutant.New("reply-early")
	wrongConnection      = mutant.New("wrong-connection")
	keptOverRoles        = mutant.New("kept-over-roles")
	ownerUnchecked       = mutant.New("owner-unchecked")
	lostTouches          = mutant.New("lost-touches")
	replayPassesBarriers = mutant.New("replay-passes-barriers")
	proposalsKept        = mutant.New("proposals-kept")
	forwardedTwice       = mutant.New("forwarded-twice")
	waitingIgnored       = mutant.New("waiting-ignored")
	touchesDropped       = mutant.New("touches-dropped")
	refusedServed        = mutant.New("refused-served")
	refusedSilently      = mutant.New("refused-silently")
	lastRefused          = mutant.New("last-refused")
	backlogUnbounded     = mutant.New("backlog-unbounded")
	forwardDrops         = mutant.New("forward-drops")
	ownLeaseWaited       = mutant.New("own-lease-waited")
	anyVersion           = mutant.New("any-version")
	changeByAnybody      = mutant.New("change-by-anybody")
	changeAnsweredEarly  = mutant.New("change-answered-early")
	joinsWithVote        = mutant.New("joins-with-vote")
	joinsAnother         = mutant.New("joins-another")
	promotesAnother      = mutant.New("promotes-another")
	demotesSoon          = mutant.New("demotes-soon")
	demotesTooMany       = mutant.New("demotes-too-many")
	markForgotten        = mutant.New("mark-forgotten")
	markKept             = mutant.New("mark-kept")
	proposesNothing      = mutant.New("proposes-nothing")
	ownerUnrecorded      = mutant.New("owner-unrecorded")
	ownerForgotten       = mutant.New("owner-forgotten")
	firstComeFirstServed = mutant.New("first-come-first-served")
	roomIgnored          = mutant.New("room-ignored") // a leader does not tell its evaluator how much room there is
	turnsOfServers       = mutant.New("turns-of-servers")
	turnsOfConnections   = mutant.New("turns-of-connections") // a subject has as many turns as connections
	weightsIgnored       = mutant.New("weights-ignored")
	shortUnbounded       = mutant.New("short-unbounded")
	asideForgotten       = mutant.New("aside-forgotten")
	fenceEarly           = mutant.New("fence-early")
	earlierServed        = mutant.New("earlier-served")
	earlierSubmitted     = mutant.New("earlier-submitted")
	earlierBarriers      = mutant.New("earlier-barriers")
	ownersForgotten      = mutant.New("owners-forgotten")
	numberForgotten      = mutant.New("number-forgotten")
	confirmedEarly       = mutant.New("confirmed-early")
	closingsUnbounded    = mutant.New("closings-unbounded")
	closingsUntilCommit  = mutant.New("closings-until-commit")
	closingsForgotten    = mutant.New("closings-forgotten")
	doomedServed         = mutant.New("doomed-served")
	aheadResumed         = mutant.New("ahead-resumed")
	brokenKept           = mutant.New("broken-kept")    // an evaluator is used on after a panic
	renewedEarly         = mutant.New("renewed-early")  // a new one is used before all is applied
	turnUnbounded        = mutant.New("turn-unbounded") // a leader evaluates all that waits before it does anything else
	deadBarriersKept     = mutant.New("dead-barriers-kept")
	movedRegained        = mutant.New("moved-regained")  // a client takes a session back that another one has taken over
	retiredIgnored       = mutant.New("retired-ignored") // a retired ensemble serves as before
	retiredSyncs         = mutant.New("retired-syncs")   // it answers syncs
	retiredResumes       = mutant.New("retired-resumes") // it resumes sessions
	retiredExpires       = mutant.New("retired-expires") // its sessions expire
	neverRevived         = mutant.New("never-revived")   // when it serves again, sessions expire whose clients were sent away
	leftRecorded         = mutant.New("left-recorded")   // what clients have asked for on connections that they have left becomes transactions
)

// injectFault applies the evaluator's faults to a transaction.
func injectFault(req *evaluate.Request, txn *datatree.Txn) {
	switch {
	case doubleClose.Planted() && req.Op == jute.OpCloseSession && len(txn.Ops) == 0:
		txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpCloseSession, Result: jute.OpCloseSession})
	case noSessionCheck.Planted() && txn.Err == jute.ErrSessionExpired && req.Op == jute.OpCreate:
		txn.Err = 0
		txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpCreate, Result: jute.OpCreate, Path: "/stray",
			ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}, Owner: jute.OwnerSession(req.Session), Cversion: 1})
	}
}
