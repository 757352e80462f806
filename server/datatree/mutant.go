package datatree

import "fmt"

// Mutant is a fault that can be injected into a tree or its subtrees, in a build with the tag zabmutants: see
// replica.Mutant.
type Mutant uint8

const (
	writesShow   Mutant = iota + 1 // what is written after the freeze shows
	childrenLost                   // children that have been deleted since the freeze are lost
	deletedLast                    // they come after the others
	newShow                        // children that were created since show
	aclShows                       // an ACL that was set since shows
	unlinkedKept                   // a finder continues from a node that is gone
	numMutants
)

var mutantNames = [...]string{writesShow: "writes-show", childrenLost: "children-lost", deletedLast: "deleted-last",
	newShow: "new-show", aclShows: "acl-shows", unlinkedKept: "unlinked-kept"}

func (m Mutant) String() string {
	if m > 0 && m < numMutants {
		return mutantNames[m]
	}
	return fmt.Sprintf("mutant(%d)", uint8(m))
}

// Mutants returns all mutants.
func Mutants() []Mutant {
	return []Mutant{writesShow, childrenLost, deletedLast, newShow, aclShows, unlinkedKept}
}
