package presence

import (
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/recipes/internal/line"
)

// Layout is how the nodes of members are called.
type Layout int

const (
	// Named is the ID, with the member's data: Curator's GroupMember. An ID is unique.
	Named Layout = iota
	// Party is a unique name, with the ID as data: kazoo's Party.
	Party
	// ShallowParty is a unique name that ends with the ID: kazoo's ShallowParty. The list of
	// names is enough to know the members.
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

// party is part of the name of each member of a Party.
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

// id returns the ID of the member with that node, or false if it is no member's.
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
