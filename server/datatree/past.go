package datatree

// past is what a View and a Subtree keep of the nodes that have changed since their moment.
type past struct {
	tree  *Tree
	saved map[nodeID]*savedNode
	gone  map[nodeID]*deletedChildren // by parent
	now   savedNode                   // see frozen
}

func newPast(t *Tree) past {
	return past{tree: t, saved: make(map[nodeID]*savedNode), gone: make(map[nodeID]*deletedChildren)}
}

// savedNode is a node as it was frozen.
type savedNode struct {
	attrs
	children int32
	name     string
	data     []byte
	list     *aclEntry
	gone     bool // it has been deleted since
}

// copyTo copies id as it is now to n.
func (t *Tree) copyTo(n *savedNode, id nodeID) {
	r := t.arena.rec(id)
	n.attrs = t.arena.attrs(r)
	n.children = t.arena.more(id).children
	n.name, n.data = r.name(), r.data()
	n.list = t.acls.entries[n.acl]
}

// frozen returns id as it was. The result is valid until the next call, or until the tree changes.
func (p *past) frozen(id nodeID) *savedNode {
	if len(p.saved) > 0 {
		if n, ok := p.saved[id]; ok {
			return n
		}
	}
	p.tree.copyTo(&p.now, id)
	return &p.now
}

// remove notes that id, which is saved and existed at the moment, is about to be deleted.
func (p *past) remove(id nodeID) {
	n, parent := p.saved[id], p.tree.arena.rec(id).parent
	n.gone = true
	if p.gone[parent] == nil {
		p.gone[parent] = new(deletedChildren)
	}
	p.gone[parent].push(deletedChild{n.name, id})
}

// childrenAfter appends to ids the next children that id had, in order: those whose names come after the given
// one, which are the children of today without the new ones, and those that have been deleted since. It looks at
// batchSize children. If there may be more, it returns the name of the last one, after which to continue.
// Deleted children that have been passed are forgotten. room is memory for it to use; it may be nil.
func (p *past) childrenAfter(ids []nodeID, id nodeID, after string, room []nodeID, isNew func(nodeID) bool) (_ []nodeID, last string, more bool) {
	gone := p.gone[id]
	for gone.upTo(after) {
		gone.pop()
	}
	seen := 0
	full := func(name string) bool {
		last = name
		seen++
		return seen == batchSize
	}
	addGone := func() bool {
		c := gone.pop()
		ids = append(ids, c)
		return full(p.saved[c].name)
	}
	if n := p.saved[id]; n == nil || !n.gone { // else the record is free, or another node's
		for c := range p.tree.childrenAfter(id, after, room) {
			name := p.tree.arena.name(c)
			for gone.upTo(name) {
				if deletedLast.Planted() {
					break
				}
				if addGone() {
					return ids, last, true
				}
			}
			if !isNew(c) {
				ids = append(ids, c)
			}
			if full(name) {
				return ids, last, true
			}
		}
	}
	for !gone.empty() {
		if addGone() {
			return ids, last, true
		}
	}
	return ids, "", false
}

// idBits is a set of nodes, with a bit for each id up to the largest one.
type idBits []uint64

func (b idBits) has(id nodeID) bool { return int(id/64) < len(b) && b[id/64]&(1<<(id%64)) != 0 }

func (b *idBits) add(id nodeID) {
	if n := int(id/64) + 1 - len(*b); n > 0 {
		*b = append(*b, make(idBits, n)...)
	}
	(*b)[id/64] |= 1 << (id % 64)
}

// remove removes id, which is in the set.
func (b idBits) remove(id nodeID) { b[id/64] &^= 1 << (id % 64) }
