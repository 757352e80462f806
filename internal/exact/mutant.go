package exact

import "github.com/zkd-project/zkd/internal/mutant"

// Faults of the rules for exactly-once sessions.
var notResent = mutant.New("not-resent") // a client takes a write that was not done for one that was refused
