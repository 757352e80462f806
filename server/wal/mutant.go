package wal

import "github.com/zkd-project/zkd/internal/mutant"

// Faults of the rules for the end of a log.
var noResync = mutant.New("no-resync") // what a start finds in the log is taken to be durable
