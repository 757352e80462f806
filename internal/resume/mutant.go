package resume

import "github.com/zkd-project/zkd/internal/mutant"

// Faults of the rules.
var (
	tailLost     = mutant.New("relay-tail-lost")      // a replay begins after a transaction that was told in part
	tailTwice    = mutant.New("relay-tail-twice")     // and tells all of it again
	liveTwice    = mutant.New("relay-live-twice")     // an event that the server has sent meanwhile is told by the replay, too
	fedFirst     = mutant.New("relay-fed-first")      // or after it, as the feed was faster
	oneShotTwice = mutant.New("relay-one-shot-twice") // a one-shot watch has the event once more
	noParent     = mutant.New("relay-no-parent")      // a node that is created or deleted is no event of its parent
	hidden       = mutant.New("relay-hidden")         // nor is one that the client may not read
	notBelow     = mutant.New("relay-not-below")      // a recursive watch misses what is below its node
	early        = mutant.New("relay-early")          // a replay ends with the first event of the feed
	notHeld      = mutant.New("relay-not-held")       // requests do not wait for the replay
	outcomeFirst = mutant.New("relay-outcome-first")  // outcomes of writes do not wait for it
	overtakes    = mutant.New("relay-overtakes")      // a write is sent while a read before it has no answer
	unordered    = mutant.New("relay-unordered")      // an outcome is told before earlier answers
	readLost     = mutant.New("relay-read-lost")      // a read is not asked again after a later write
	headerBehind = mutant.New("relay-header-behind")  // an outcome that is told late has its own zxid, below that of answers before it

	notResumed   = mutant.New("resume-not")            // a lost connection ends the client's, too
	renumbered   = mutant.New("resume-renumbered")     // an edge gives the numbers of an earlier one to other requests
	syncOnce     = mutant.New("resume-sync-once")      // a sync under way ends the client's connection
	restoredNone = mutant.New("resume-restored-none")  // one-shot watches are not set again
	restoredLate = mutant.New("resume-restored-since") // watches tell what they have missed since too late a zxid

	patient = mutant.New("resume-patient") // a server that answers nothing is waited for as long as if nothing was asked

	memoryOld       = mutant.New("relay-memory-old")       // the memory answers with less than the session has seen
	memoryAhead     = mutant.New("relay-memory-ahead")     // or with more than the events that the server has sent
	memoryBetween   = mutant.New("resume-memory-between")  // or between two events of a transaction
	memoryBusy      = mutant.New("relay-memory-busy")      // or while requests are under way
	memoryUnsynced  = mutant.New("relay-memory-unsynced")  // a server may be behind what the memory has shown
	memoryUnwatched = mutant.New("relay-memory-unwatched") // the watches of the memory do not go to the server

	missedEarly  = mutant.New("relay-memory-missed-early")  // what one-shot watches have missed is told before it is known as of when
	missedUnseen = mutant.New("relay-memory-missed-unseen") // or does not count as seen
)
