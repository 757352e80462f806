package datatree

import "iter"

// Child is a child of a znode. It is valid until the tree changes.
type Child struct {
	Name string // valid after that, too

	tree *Tree
	id   nodeID
}

// Node returns a copy of the child without its data.
func (c Child) Node() Node { return c.tree.node(c.id) }

// Data returns the data of the child, as Tree.GetData does.
func (c Child) Data() []byte { return c.tree.arena.data(c.id) }

// Children yields the names of the children of path, in no particular order, and none if
// there is no such znode. The names stay valid after the nodes are deleted.
func (t *Tree) Children(path string) iter.Seq[string] {
	return t.namesBelow(t.find(path)) // apart, so that both are inlined and nothing is allocated
}

func (t *Tree) namesBelow(id nodeID) iter.Seq[string] {
	return func(yield func(string) bool) {
		for c := t.firstChild(id); c != 0; c = t.arena.rec(c).next {
			t.arena.steps.Add(1)
			if !yield(t.arena.name(c)) {
				return
			}
		}
	}
}

// ChildrenAfter yields the children of path whose names come after the given one in byte
// order, in that order, and none if there is no such znode. All names come after "". What
// it costs to yield n children does not depend on the number of children, but for a sort of
// at most some 1,000 of them.
func (t *Tree) ChildrenAfter(path, after string) iter.Seq[Child] {
	id := t.find(path)
	return func(yield func(Child) bool) {
		var room [listFrom]nodeID
		for c := range t.childrenAfter(id, after, room[:]) {
			if !yield(Child{t.arena.name(c), t, c}) {
				return
			}
		}
	}
}

// childrenAfter is ChildrenAfter by ids. It sorts in room, which may be nil.
func (t *Tree) childrenAfter(id nodeID, after string, room []nodeID) iter.Seq[nodeID] {
	return func(yield func(nodeID) bool) {
		if l := t.listings[id]; l != nil {
			l.after(&t.arena, after, room, yield)
			return
		}
		ids := room[:0]
		for c := t.firstChild(id); c != 0; c = t.arena.rec(c).next {
			t.arena.steps.Add(1)
			if t.arena.name(c) > after {
				ids = append(ids, c)
			}
		}
		t.arena.sortByName(ids)
		for _, c := range ids {
			if !yield(c) {
				return
			}
		}
	}
}

// ChildNameBytes returns the length of the names of the children of path together. It does
// not look at more than some 1,000 of them.
func (t *Tree) ChildNameBytes(path string) int {
	id := t.find(path)
	if l := t.listings[id]; l != nil {
		return l.bytes
	}
	n := 0
	for c := t.firstChild(id); c != 0; c = t.arena.rec(c).next {
		t.arena.steps.Add(1)
		n += int(t.arena.rec(c).nameLen)
	}
	return n
}

// LongLists yields the znodes whose list of children is longer than limit, in bytes, in the reply to
// a getChildren2, each with that length. It looks at all znodes.
func (t *Tree) LongLists(limit int) iter.Seq2[string, int] {
	const fixed = 4 + 8 + 4 + 4 + 68 // the reply without the names: a header, their number, a Stat
	return func(yield func(string, int) bool) {
		for id := rootID; id != 0; id = t.afterInWalk(id) {
			size := fixed
			for c := t.firstChild(id); c != 0; c = t.arena.rec(c).next {
				size += 4 + int(t.arena.rec(c).nameLen)
			}
			if size > limit && !yield(t.path(id), size) {
				return
			}
		}
	}
}

// afterInWalk returns the node that comes after id in a walk in which parents come before their
// children, or 0.
func (t *Tree) afterInWalk(id nodeID) nodeID {
	if first := t.firstChild(id); first != 0 {
		return first
	}
	for ; id != rootID; id = t.arena.rec(id).parent {
		if next := t.arena.rec(id).next; next != 0 {
			return next
		}
	}
	return 0
}

// firstChild returns the first child of id, the oldest one; 0 if there is none, or if id is 0.
func (t *Tree) firstChild(id nodeID) nodeID {
	if id == 0 {
		return 0
	}
	return t.arena.more(id).first
}

// makeListing makes the listing of id if it has enough children.
func (t *Tree) makeListing(id nodeID) {
	if x := t.arena.more(id); x.children >= listFrom {
		t.listings[id] = newListing(&t.arena, x)
	}
}

// addToListing adds a new child to the listing of its parent, which gets one if it has now
// enough children.
func (t *Tree) addToListing(parent, child nodeID) {
	if t.arena.more(parent).children < listBelow {
		return
	}
	if l := t.listings[parent]; l != nil {
		l.insert(&t.arena, child)
	} else {
		t.makeListing(parent)
	}
}

// removeFromListing removes a child, which its parent no longer counts, from the listing of
// its parent, and the listing if there are few children left.
func (t *Tree) removeFromListing(parent, child nodeID) {
	n := t.arena.more(parent).children
	if n < listBelow-1 {
		return
	}
	l := t.listings[parent]
	switch {
	case l == nil:
	case n < listBelow:
		delete(t.listings, parent)
	default:
		l.remove(&t.arena, child)
	}
}
