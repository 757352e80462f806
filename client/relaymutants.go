package client

import "github.com/zkd-project/zkd/internal/mutant"

// Faults that tests plant into a Relay. Those of its rules are in internal/resume.
var (
	relayRecordNumber    = mutant.New("relay-record-number")    // a relay that is made again gives the number of the last request once more
	relayRecordTail      = mutant.New("relay-record-tail")      // it does not know which events of the last transaction were told
	relayRecordUnwatched = mutant.New("relay-record-unwatched") // nor the watches

	relayMemoryOld       = mutant.New("relay-memory-old")       // the memory answers with less than the session has seen
	relayMemoryAhead     = mutant.New("relay-memory-ahead")     // or with more than the events that the server has sent
	relayMemoryBusy      = mutant.New("relay-memory-busy")      // or while requests are under way
	relayMemoryUntold    = mutant.New("relay-memory-untold")    // or before an event that the memory has
	relayMemoryUnsynced  = mutant.New("relay-memory-unsynced")  // a server may be behind what the memory has shown
	relayMemoryUnwatched = mutant.New("relay-memory-unwatched") // the watches of the memory do not go upstream
	relayMemoryUnpinged  = mutant.New("relay-memory-unpinged")  // a session whose reads the memory answers is not kept alive

	userForgotten = mutant.New("user-forgotten") // the servers do not learn for whom a relay is
	userRefused   = mutant.New("user-refused")   // a relay continues as itself if they refuse that
	userLeft      = mutant.New("user-left")      // a record does not say for whom its relay was
)
