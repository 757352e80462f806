package wal

import "github.com/zkd-project/zkd/internal/mutant"

// Faults of the rules for the end of a log.
var (
	noResync       = mutant.New("no-resync")       // what a start finds in the log is taken to be durable
	shortageUntold = mutant.New("shortage-untold") // a log that waits does not tell how much of its batch is durable
	forgetWaits    = mutant.New("forget-waits")    // a Forget record waits with the log for its segment
	reserveTaken   = mutant.New("reserve-taken")   // entries take the room for what makes room
	keptTaken      = mutant.New("kept-taken")      // segments of entries take what is kept on the disk for a snapshot
)
