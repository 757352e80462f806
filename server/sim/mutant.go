package sim

import "github.com/zkd-project/zkd/internal/mutant"

// Faults of the model: of disks, of operators and of clients, as far as no code of a server is concerned.
// The faults of servers are in the packages with their rules.
var (
	sameIncarnation = mutant.New("same-incarnation") // a wiped or restored disk keeps its incarnation
	damageUnseen    = mutant.New("damage-unseen")    // a damaged log is taken for an intact one
	resentBackwards = mutant.New("resent-backwards") // a client sends writes again in another order
)
