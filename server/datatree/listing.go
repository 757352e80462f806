package datatree

import (
	"slices"
	"sort"
	"strings"
)

const (
	// A znode gets a listing when it has listFrom children, and loses it when it has fewer
	// than listBelow. So neither making a listing nor sorting the children of a znode that
	// has none takes long.
	listFrom  = 1024
	listBelow = listFrom / 2
	// leafSize is the largest number of children in a leaf.
	leafSize = 512
)

// listing has the children of one znode in the byte order of their names, at 4 to 16 bytes
// for each. It is cut into leaves; a leaf has the children of one range of names in any
// order, and is sorted only when it is split. A reader sorts a copy.
//
// So a create compares the name with the bounds of the leaves, and a delete also searches
// the leaf for an id, but neither reads the names of other children, which are all over the
// memory.
//
// Invariant: there is a leaf; low increases; leaf i has the children with low of i <= name
// < low of i+1; two adjacent leaves have more than leafSize/2 children.
type listing struct {
	leaves []leaf
	bytes  int // of all names
}

type leaf struct {
	low string // has no meaning in the first leaf, which has no lower bound
	ids []nodeID
}

// newListing returns the listing of the children of the znode with this extra.
func newListing(a *arena, x *extra) *listing {
	ids := make([]nodeID, 0, x.children)
	l := &listing{}
	for c := x.first; c != 0; c = a.rec(c).next {
		ids = append(ids, c)
		l.bytes += int(a.rec(c).nameLen)
	}
	a.sortByName(ids)
	for part := range slices.Chunk(ids, leafSize) {
		l.leaves = append(l.leaves, newLeaf(a.name(part[0]), part))
	}
	return l
}

// newLeaf copies its arguments: low may be a part of a large blob.
func newLeaf(low string, ids []nodeID) leaf {
	return leaf{strings.Clone(low), append(make([]nodeID, 0, leafSize), ids...)}
}

func (a *arena) sortByName(ids []nodeID) {
	slices.SortFunc(ids, func(x, y nodeID) int { return strings.Compare(a.name(x), a.name(y)) })
}

// at returns the number of the leaf for a name.
func (l *listing) at(name string) int {
	last := len(l.leaves) - 1
	if l.leaves[last].low <= name { // as with names that are made in order
		return last
	}
	return sort.Search(last, func(i int) bool { return l.leaves[i+1].low > name })
}

func (l *listing) insert(a *arena, id nodeID) {
	name := a.name(id)
	i := l.at(name)
	if len(l.leaves[i].ids) == leafSize {
		l.split(a, i, name)
		i = l.at(name)
	}
	l.leaves[i].ids = append(l.leaves[i].ids, id)
	l.bytes += len(name)
}

// split makes room for name in leaf i: it moves the upper half of it to a new leaf. But if
// name comes last of all, the new leaf is for it alone, so that names that are made in order
// fill the leaves.
func (l *listing) split(a *arena, i int, name string) {
	ids := l.leaves[i].ids
	a.sortByName(ids)
	cut := leafSize / 2
	low := a.name(ids[cut])
	if i == len(l.leaves)-1 && name > a.name(ids[leafSize-1]) {
		cut, low = leafSize, name
	}
	l.leaves = slices.Insert(l.leaves, i+1, newLeaf(low, ids[cut:]))
	l.leaves[i].ids = ids[:cut]
}

func (l *listing) remove(a *arena, id nodeID) {
	name := a.name(id)
	i := l.at(name)
	f := &l.leaves[i]
	at := slices.Index(f.ids, id)
	f.ids = slices.Delete(f.ids, at, at+1)
	l.bytes -= len(name)
	if i+1 == len(l.leaves) || !l.join(i) {
		l.join(i - 1)
	}
}

// join merges leaf i and the next one if both are small, and reports whether it did.
func (l *listing) join(i int) bool {
	if i < 0 || len(l.leaves[i].ids)+len(l.leaves[i+1].ids) > leafSize/2 {
		return false
	}
	l.leaves[i].ids = append(l.leaves[i].ids, l.leaves[i+1].ids...)
	l.leaves = slices.Delete(l.leaves, i+1, i+2)
	return true
}

// after calls yield with the children whose names come after name, in order, until it
// returns false. It sorts the children in ids, which should have room for leafSize.
func (l *listing) after(a *arena, name string, ids []nodeID, yield func(nodeID) bool) {
	first := l.at(name)
	for i := first; i < len(l.leaves); i++ {
		ids = append(ids[:0], l.leaves[i].ids...)
		a.steps.Add(len(ids))
		a.sortByName(ids)
		next := ids
		if i == first {
			next = ids[sort.Search(len(ids), func(j int) bool { return a.name(ids[j]) > name }):]
		}
		for _, id := range next {
			if !yield(id) {
				return
			}
		}
	}
}
