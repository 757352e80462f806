package datatree

import (
	"slices"
	"strings"
)

// byPath returns nodes without children in the byte order of their paths. It makes no paths, which could be
// long: it orders the siblings on the ways to the nodes, and takes time in proportion to these.
func (t *Tree) byPath(ids []nodeID) []nodeID {
	if len(ids) == 0 {
		return nil
	}
	below := make(map[nodeID][]nodeID) // the children on the ways, by the parent
	for _, id := range ids {
		for seen := false; id != rootID && !seen; {
			up := t.arena.rec(id).parent
			_, seen = below[up]
			below[up] = append(below[up], id)
			id = up
		}
	}
	order := func(a, b nodeID) int {
		return compareOnTheWay(t.arena.name(a), t.arena.name(b), len(below[a]) > 0, len(below[b]) > 0)
	}
	sorted := make([]nodeID, 0, len(ids))
	for next := []nodeID{rootID}; len(next) > 0; {
		id := next[len(next)-1]
		next = next[:len(next)-1]
		children := below[id]
		if len(children) == 0 {
			sorted = append(sorted, id)
			continue
		}
		slices.SortFunc(children, order)
		for _, child := range slices.Backward(children) {
			next = append(next, child)
		}
	}
	return sorted
}

// compareOnTheWay compares two siblings' names as paths: after the name of a node on the way to others
// comes a slash.
func compareOnTheWay(a, b string, aOnWay, bOnWay bool) int {
	n := min(len(a), len(b))
	switch {
	case a[:n] == b[:n] && len(a) < len(b) && aOnWay && b[n] < '/':
		return 1
	case a[:n] == b[:n] && len(b) < len(a) && bOnWay && a[n] < '/':
		return -1
	}
	return strings.Compare(a, b)
}
