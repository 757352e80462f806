package client

import "github.com/zkd-project/zkd/internal/mutant"

// Faults that tests plant into a Relay. Those of its rules are in internal/resume.
var (
	relayRecordNumber    = mutant.New("relay-record-number")    // a relay that is made again gives the number of the last request once more
	relayRecordTail      = mutant.New("relay-record-tail")      // it does not know which events of the last transaction were told
	relayRecordUnwatched = mutant.New("relay-record-unwatched") // nor the watches

	relayMemoryUntold   = mutant.New("relay-memory-untold")   // or before an event that the memory has
	relayMemoryUnpinged = mutant.New("relay-memory-unpinged") // a session whose reads the memory answers is not kept alive

	userForgotten = mutant.New("user-forgotten") // the servers do not learn for whom a relay is
	userRefused   = mutant.New("user-refused")   // a relay continues as itself if they refuse that
	userLeft      = mutant.New("user-left")      // a record does not say for whom its relay was
)
