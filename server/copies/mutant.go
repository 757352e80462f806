package copies

import "github.com/zkd-project/zkd/internal/mutant"

// Faults of the rules.
var (
	anyHistory       = mutant.New("any-history")       // a server sends its log to a copy of another ensemble
	anyStream        = mutant.New("any-stream")        // a copy takes any stream that a server sends
	anyState         = mutant.New("any-state")         // it takes the state of another ensemble
	earlierState     = mutant.New("earlier-state")     // it takes a state before its own
	circleFollowed   = mutant.New("circle-followed")   // a copy follows itself, through others
	unsettledSent    = mutant.New("unsettled-sent")    // a server sends all that its log has
	earlyComplete    = mutant.New("early-complete")    // a copy has everything before its disk has
	anyRetirement    = mutant.New("any-retirement")    // a copy of an earlier retirement counts as one of the last
	untoldLoss       = mutant.New("untold-loss")       // it becomes an ensemble though it does not have everything, and nobody has accepted that
	unequalMembers   = mutant.New("unequal-members")   // copies that differ become an ensemble
	sameEnsemble     = mutant.New("same-ensemble")     // the new ensemble has the id of the other one
	epochsNotAhead   = mutant.New("epochs-not-ahead")  // its epochs are not ahead
	firstForgotten   = mutant.New("first-forgotten")   // its epochs are not ahead of an ensemble that was made of copies itself
	markersForgotten = mutant.New("markers-forgotten") // what a copy lacks of later epochs is counted without their first entries
	markNotReached   = mutant.New("mark-not-reached")  // a copy has what a server has said to have, though it did not arrive
	staleIsNew       = mutant.New("stale-is-new")      // what was long under way counts as said now
	staysRetired     = mutant.New("stays-retired")     // it is retired
)
