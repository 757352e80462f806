package group

import (
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Layout says what members are called on the tree.
type Layout int

const (
	// Named calls the node as the member, and has the member's data in it: Curator's
	// GroupMember. There is one member of an ID.
	Named Layout = iota
	// Party has a unique name, and the ID as data: kazoo's Party.
	Party
	// ShallowParty has a unique name with the ID in it: kazoo's ShallowParty. So a list
	// is all that it takes to know the members.
	ShallowParty
)

// String returns the layout's name.
func (l Layout) String() string {
	switch l {
	case Named:
		return "Named"
	case Party:
		return "Party"
	case ShallowParty:
		return "ShallowParty"
	}
	return fmt.Sprintf("Layout(%d)", int(l))
}

// party is in the name of each member of a Party.
const party = "__party__"

// node returns the name and the data of a new member's node.
func (l Layout) node(id string, data []byte) (name string, own []byte) {
	unique := strings.ReplaceAll(line.NewID(), "-", "")
	switch l {
	case Party:
		return unique + party, []byte(id)
	case ShallowParty:
		return unique + "-" + id, []byte("0")
	}
	return id, data
}

// id returns the ID of the member whose node has that name and data, and false if it
// is no member's.
func (l Layout) id(name string, data []byte) (string, bool) {
	switch l {
	case Party:
		return string(data), strings.Contains(name, party)
	case ShallowParty:
		_, id, ok := strings.Cut(name, "-")
		return id, ok
	}
	return name, true
}
