package feed

import "github.com/zkd-project/zkd/internal/mutant"

// Faults of histories and feeds.
var (
	afterDoubled   = mutant.New("after-doubled")   // a feed begins with the changes of the zxid after which it is to begin
	untakenLost    = mutant.New("untaken-lost")    // a change that has no room in an event is lost
	partConfirmed  = mutant.New("part-confirmed")  // an event confirms a transaction of which more follows
	oldestTooLow   = mutant.New("oldest-too-low")  // a history says that it has one transaction more than it has
	compactedEarly = mutant.New("compacted-early") // a feed that has everything up to the oldest zxid ends
	anybodyDeleted = mutant.New("anybody-deleted") // readers without permission get deletions
	chargeless     = mutant.New("chargeless")      // events cost no credit
	levelForgotten = mutant.New("level-forgotten") // a feed that needs several events for what is new does not precede replies
	lossUntold     = mutant.New("loss-untold")     // a client is not told that it may no longer read a znode
	levelUntold    = mutant.New("level-untold")    // a client is told that a feed precedes replies when it has no credit
	placesIgnored  = mutant.New("places-ignored")  // a server has more feeds than it may
	addressIgnored = mutant.New("address-ignored") // a client with several connections has more places than others
	displacedKept  = mutant.New("displaced-kept")  // a feed whose place another one has does not end
	placeKept      = mutant.New("place-kept")      // a feed that a client ends keeps its place
	endsEarly      = mutant.New("ends-early")      // a reader says of each change that it is the last one of its transaction
	endForgotten   = mutant.New("end-forgotten")   // a reader is not told that all of a transaction was read
	childrenHidden = mutant.New("children-hidden") // a client that may not read a child is not told that its parent has other children
	neighboursList = mutant.New("neighbours-list") // a change has the ACL list of the one before
	batchLost      = mutant.New("batch-lost")      // the change with which a reader stops for a while is lost
	replayNotFed   = mutant.New("replay-not-fed")  // a history lacks what a start replays
)
