package subtrees

import "github.com/zkd-project/zkd/internal/mutant"

// Faults of a table.
var (
	oneVersion   = mutant.New("memory-one-version") // subtrees do not wait for each other
	resetKept    = mutant.New("memory-reset-kept")  // watches stay in a memory that has missed changes
	rightsKept   = mutant.New("memory-rights-kept") // and on a node that can't be read any more
	firedKept    = mutant.New("memory-fired-kept")  // a watch that has fired fires again
	parentSilent = mutant.New("memory-no-parent")   // the event of a node is told, and that of its parent is not
)
