package evaluate

import "github.com/zkd-project/zkd/internal/mutant"

// Faults of the evaluation.
var (
	holderOfTree      = mutant.New("holder-of-tree")      // holders are looked up in the tree, without what is accepted
	anyContender      = mutant.New("any-contender")       // each contender holds
	holderUnchecked   = mutant.New("holder-unchecked")    // an entry for a holder allows everybody
	ownerOfTree       = mutant.New("owner-of-tree")       // owners of sessions are looked up in the tree, without what is accepted
	subtreeOfTree     = mutant.New("subtree-of-tree")     // a deleteTree misses what is accepted
	limitIgnored      = mutant.New("limit-ignored")       // a deleteTree has no limit
	absentOfTree      = mutant.New("absent-of-tree")      // a checkAbsent looks in the tree, without what is accepted
	setsAnothers      = mutant.New("sets-anothers")       // a createOrSet sets the ephemeral of another session
	pendingNotCounted = mutant.New("pending-not-counted") // what accepted transactions add to the memory does not count
	shrinkingRefused  = mutant.New("shrinking-refused")   // so is what frees memory, when the room is used up
	retiredOfTree     = mutant.New("retired-of-tree")     // an evaluator does not notice that what it accepts retires the ensemble
	retiredForgotten  = mutant.New("retired-forgotten")   // nor a new one that the ensemble is retired
	briefUnseen       = mutant.New("brief-unseen")        // a retirement that begins and ends between two looks is not noticed
	doneAgain         = mutant.New("done-again")          // the last write of an exactly-once session is done again
	acceptedForgotten = mutant.New("accepted-forgotten")  // so is one that is accepted and not applied
)
