package datatree

import "github.com/zkd-project/zkd/internal/mutant"

// Faults of a tree and of its subtrees.
var (
	writesShow      = mutant.New("writes-show")       // what is written after the freeze shows
	childrenLost    = mutant.New("children-lost")     // children that have been deleted since the freeze are lost
	deletedLast     = mutant.New("deleted-last")      // they come after the others
	newShow         = mutant.New("new-show")          // children that were created since show
	aclShows        = mutant.New("acl-shows")         // an ACL that was set since shows
	unlinkedKept    = mutant.New("unlinked-kept")     // a finder continues from a node that is gone
	outcomesNotKept = mutant.New("outcomes-not-kept") // a view has exactly-once sessions without their outcomes
)
