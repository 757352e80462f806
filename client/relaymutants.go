package client

import "github.com/zkd-project/zkd/internal/mutant"

// Faults that tests plant into a Relay.
var (
	relayTailLost     = mutant.New("relay-tail-lost")      // a replay begins after a transaction that was told in part
	relayTailTwice    = mutant.New("relay-tail-twice")     // and tells all of it again
	relayLiveTwice    = mutant.New("relay-live-twice")     // an event that the server has sent meanwhile is told by the replay, too
	relayFedFirst     = mutant.New("relay-fed-first")      // or after it, as the feed was faster
	relayOneShotTwice = mutant.New("relay-one-shot-twice") // a one-shot watch has the event once more
	relayNoParent     = mutant.New("relay-no-parent")      // a node that is created or deleted is no event of its parent
	relayHidden       = mutant.New("relay-hidden")         // nor is one that the client may not read
	relayNotBelow     = mutant.New("relay-not-below")      // a recursive watch misses what is below its node
	relayEarly        = mutant.New("relay-early")          // a replay ends with the first event of the feed
	relayNotHeld      = mutant.New("relay-not-held")       // requests do not wait for the replay
	relayOutcomeFirst = mutant.New("relay-outcome-first")  // outcomes of writes do not wait for it
	relayOvertakes    = mutant.New("relay-overtakes")      // a write is sent while a read before it has no answer
	relayUnordered    = mutant.New("relay-unordered")      // an outcome is told before earlier answers
	relayReadLost     = mutant.New("relay-read-lost")      // a read is not asked again after a later write

	relayRecordNumber    = mutant.New("relay-record-number")    // a relay that is made again gives the number of the last request once more
	relayRecordTail      = mutant.New("relay-record-tail")      // it does not know which events of the last transaction were told
	relayRecordUnwatched = mutant.New("relay-record-unwatched") // nor the watches

	relayMemoryOld          = mutant.New("relay-memory-old")           // the memory answers with less than the session has seen
	relayMemoryAhead        = mutant.New("relay-memory-ahead")         // or with more than the events that the server has sent
	relayMemoryBusy         = mutant.New("relay-memory-busy")          // or while requests are under way
	relayMemoryUntold       = mutant.New("relay-memory-untold")        // or before an event that the memory has
	relayMemoryUnsynced     = mutant.New("relay-memory-unsynced")      // a server may be behind what the memory has shown
	relayMemoryUnwatched    = mutant.New("relay-memory-unwatched")     // the watches of the memory do not go upstream
	relayMemoryMissedEarly  = mutant.New("relay-memory-missed-early")  // what they have missed is told before it is known as of when
	relayMemoryMissedUnseen = mutant.New("relay-memory-missed-unseen") // or does not count as seen
	relayMemoryUnpinged     = mutant.New("relay-memory-unpinged")      // a session whose reads the memory answers is not kept alive

	userForgotten = mutant.New("user-forgotten") // the servers do not learn for whom a relay is
	userRefused   = mutant.New("user-refused")   // a relay continues as itself if they refuse that
	userLeft      = mutant.New("user-left")      // a record does not say for whom its relay was
)
