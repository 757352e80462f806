package session

import "github.com/zkd-project/zkd/internal/mutant"

// Faults of the rules for deadlines.
var noPostpone = mutant.New("no-postpone") // sessions expire right after a pause of the process
