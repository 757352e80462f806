package datatree

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// sibling is a node on the way to nodes that byPath puts in order.
type sibling struct {
	head uint64 // of the name, after what all names of the siblings begin with
	name string // with a slash if it is not one of these nodes
	id   nodeID
}

// byPath returns nodes without children in the byte order of their paths. It makes no paths, which could be
// long: it orders the siblings on the ways to the nodes, and takes time in proportion to these.
func (t *Tree) byPath(ids []nodeID) []nodeID {
	if len(ids) == 0 {
		return nil
	}
	below := make(map[nodeID][]sibling) // on the ways, by the parent
	for _, id := range ids {
		for slash, seen := "", false; id != rootID && !seen; slash = "/" {
			up := t.arena.rec(id).parent
			_, seen = below[up]
			below[up] = append(below[up], sibling{name: t.arena.name(id) + slash, id: id})
			id = up
		}
	}
	sorted := make([]nodeID, 0, len(ids))
	for next := []nodeID{rootID}; len(next) > 0; {
		id := next[len(next)-1]
		next = next[:len(next)-1]
		siblings := below[id]
		if len(siblings) == 0 {
			sorted = append(sorted, id)
			continue
		}
		sortSiblings(siblings)
		for _, s := range slices.Backward(siblings) {
			next = append(next, s.id)
		}
	}
	return sorted
}

// sortSiblings puts siblings in the order of their names. It compares numbers where it can: the names are all over
// the memory, and long ones often differ in their last bytes alone.
func sortSiblings(siblings []sibling) {
	first := []byte(siblings[0].name)
	common := len(first)
	for i := range siblings {
		common = min(common, commonPrefix(first[:common], siblings[i].name))
	}
	for i := range siblings {
		var head [8]byte
		copy(head[:], siblings[i].name[common:])
		siblings[i].head = binary.BigEndian.Uint64(head[:])
	}
	slices.SortFunc(siblings, func(a, b sibling) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		return strings.Compare(a.name, b.name)
	})
}
