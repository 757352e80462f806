package replica

import (
	"fmt"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
)

// Mutant is a fault that can be injected into a replica, in a build with the tag
// zabmutants. Each one removes one rule, and the simulator must notice. In other builds
// the compiler removes them.
type Mutant uint8

const (
	barrierEarly Mutant = iota + 1
	expiredEarly
	leaseForEver
	nothingHeld
	timeoutForgotten
	confirmedFirst
	doubleClose
	noSessionCheck
	replyBeforeCommit
	wrongConnection
	keptOverRoles
	ownerUnchecked
	lostTouches
	replayPassesBarriers
	proposalsKept
	forwardedTwice
	waitingIgnored
	touchesDropped
	refusedServed
	backlogUnbounded
	forwardDrops
	ownLeaseWaited
	anyVersion
	changeByAnybody
	changeAnsweredEarly
	joinsWithVote
	joinsAnother
	promotesAnother
	demotesSoon
	demotesTooMany
	markForgotten
	markKept
	proposesNothing
	ownerUnrecorded
	ownerForgotten
	firstComeFirstServed
	turnsOfServers
	asideForgotten
	fenceEarly
	earlierServed
	earlierSubmitted
	earlierBarriers
	ownersForgotten
	numberForgotten
	confirmedEarly
	closingsUnbounded
	closingsUntilCommit
	closingsForgotten
	doomedServed
	aheadResumed
	deadBarriersKept
)

var mutantNames = [...]string{
	barrierEarly:         "barrier-early",
	expiredEarly:         "expired-early",
	leaseForEver:         "no-lease",
	nothingHeld:          "no-hold",
	timeoutForgotten:     "timeout-forgotten",
	confirmedFirst:       "confirmed-first",
	doubleClose:          "double-close",
	noSessionCheck:       "no-session-check",
	replyBeforeCommit:    "reply-early",
	wrongConnection:      "wrong-connection",
	keptOverRoles:        "kept-over-roles",
	ownerUnchecked:       "owner-unchecked",
	lostTouches:          "lost-touches",
	replayPassesBarriers: "replay-passes-barriers",
	proposalsKept:        "proposals-kept",
	forwardedTwice:       "forwarded-twice",
	waitingIgnored:       "waiting-ignored",
	touchesDropped:       "touches-dropped",
	refusedServed:        "refused-served",
	backlogUnbounded:     "backlog-unbounded",
	forwardDrops:         "forward-drops",
	ownLeaseWaited:       "own-lease-waited",
	anyVersion:           "any-version",
	changeByAnybody:      "change-by-anybody",
	changeAnsweredEarly:  "change-answered-early",
	joinsWithVote:        "joins-with-vote",
	joinsAnother:         "joins-another",
	promotesAnother:      "promotes-another",
	demotesSoon:          "demotes-soon",
	demotesTooMany:       "demotes-too-many",
	markForgotten:        "mark-forgotten",
	markKept:             "mark-kept",
	proposesNothing:      "proposes-nothing",
	ownerUnrecorded:      "owner-unrecorded",
	ownerForgotten:       "owner-forgotten",
	firstComeFirstServed: "first-come-first-served",
	turnsOfServers:       "turns-of-servers",
	asideForgotten:       "aside-forgotten",
	fenceEarly:           "fence-early",
	earlierServed:        "earlier-served",
	earlierSubmitted:     "earlier-submitted",
	earlierBarriers:      "earlier-barriers",
	ownersForgotten:      "owners-forgotten",
	numberForgotten:      "number-forgotten",
	confirmedEarly:       "confirmed-early",
	closingsUnbounded:    "closings-unbounded",
	closingsUntilCommit:  "closings-until-commit",
	closingsForgotten:    "closings-forgotten",
	doomedServed:         "doomed-served",
	aheadResumed:         "ahead-resumed",
	deadBarriersKept:     "dead-barriers-kept",
}

func (m Mutant) String() string {
	if int(m) < len(mutantNames) && m > 0 {
		return mutantNames[m]
	}
	return fmt.Sprintf("mutant(%d)", uint8(m))
}

// TimeoutForgotten reports whether that fault is injected: the server then also answers
// with the timeout that the client has requested.
func TimeoutForgotten() bool { return mutated(timeoutForgotten) }

// Mutants returns all mutants.
func Mutants() []Mutant {
	list := make([]Mutant, 0, len(mutantNames)-1)
	for m := barrierEarly; int(m) < len(mutantNames); m++ {
		list = append(list, m)
	}
	return list
}

// injectFault applies the evaluator's faults to a transaction.
func injectFault(req *evaluate.Request, txn *datatree.Txn) {
	switch {
	case mutated(doubleClose) && req.Op == jute.OpCloseSession && len(txn.Ops) == 0:
		txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpCloseSession, Result: jute.OpCloseSession})
	case mutated(noSessionCheck) && txn.Err == jute.ErrSessionExpired && req.Op == jute.OpCreate:
		txn.Err = 0
		txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpCreate, Result: jute.OpCreate, Path: "/stray",
			ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}, Owner: jute.OwnerSession(req.Session), Cversion: 1})
	}
}
