package datatree

import (
	"bytes"

	"github.com/zkd-project/zkd/jute"
)

// Subtree is a node and all below it, as they were at the moment of FreezeBelow, to be walked while the
// tree changes. Like a View it consists of the tree and of the saved versions of the nodes
// that have changed since.
//
// The children of a node come in the order of their names, a batch at a time: those that still exist, which
// are the children of today that are not younger than the moment, and those that have been deleted since.
type Subtree struct {
	past
	zxid jute.Zxid
	room int  // for more saved nodes, in bytes
	lost bool // there was no room for one: the state is not known any more

	// The walk. levels are the node that is visited next, or was visited last, and those above it, up to the
	// root of the subtree.
	levels []place
	path   []byte // of the last of levels
}

// place is a node on the way to the one that is visited next.
type place struct {
	id      nodeID
	pathLen int
	next    []nodeID // its children to be visited, in order
	after   string   // the name of the last one that was looked at
	more    bool     // there may be children after that
	visited bool
}

// mostLooked is at about how many children one Walk looks, so that the tree is not locked for long.
const mostLooked = 64 << 10

// batchSize is how many children are looked at at a time.
const batchSize = listFrom

// SavedBytes is what a view or a subtree keeps of a node that has changed, roughly, besides its name and data.
const SavedBytes = 200

// FreezeBelow opens a subtree, unless there is no node at path. It is given up when the former versions of the nodes of the whole
// tree that have changed would take more than limit bytes. The tree must be locked for reading, and no other goroutine may
// call FreezeBelow or Subtree.Close meanwhile.
func (t *Tree) FreezeBelow(path string, limit int) (s *Subtree, ok bool) {
	id := t.find(path)
	if id == 0 {
		return nil, false
	}
	s = &Subtree{past: newPast(t), zxid: t.lastZxid, room: limit}
	s.path = append(s.path, path...)
	s.levels = append(s.levels, place{id: id, pathLen: len(path)})
	t.subtrees = append(t.subtrees, s)
	return s, true
}

// Close ends the subtree and drops the saved versions. Its conditions are those of FreezeBelow.
func (s *Subtree) Close() {
	for i, other := range s.tree.subtrees {
		if other == s {
			s.tree.subtrees = append(s.tree.subtrees[:i:i], s.tree.subtrees[i+1:]...)
		}
	}
	s.saved, s.gone, s.levels = nil, nil, nil
}

// Zxid returns the zxid of the state.
func (s *Subtree) Zxid() jute.Zxid { return s.zxid }

// Lost reports whether the subtree is given up.
func (s *Subtree) Lost() bool { return s.lost }

func (s *Subtree) save(id nodeID) {
	if _, ok := s.saved[id]; ok || s.lost {
		return
	}
	if writesShow.Planted() {
		return
	}
	n := new(savedNode)
	s.tree.copyTo(n, id)
	if s.room -= SavedBytes + len(n.name) + len(n.data); s.room < 0 {
		s.saved, s.gone, s.lost = nil, nil, true
		return
	}
	s.saved[id] = n
}

// remove notes that id, which is saved, is about to be deleted.
func (s *Subtree) remove(id nodeID) {
	if s.lost || s.isNew(id) {
		return
	}
	if writesShow.Planted() {
		return
	}
	s.past.remove(id)
	if childrenLost.Planted() {
		s.gone[s.tree.arena.rec(id).parent] = nil
	}
}

// isNew reports whether id, which exists, was created after the moment.
func (s *Subtree) isNew(id nodeID) bool { return s.tree.arena.rec(id).czxid > s.zxid }

// Visited is what Subtree.Walk does after a node.
type Visited uint8

// The ways to continue.
const (
	Enter Visited = iota // with its children
	Skip                 // without what is below it
	Again                // stop; the next Walk begins with this node
)

// Walk calls visit for each node that comes next, parents before their children and these in the byte order
// of their names, until there are no more or visit returns Again. It also returns, and may have visited none, when it has
// looked at many children that are younger than the moment. The path is
// valid during the call. The data must not be changed. The tree must be locked for reading, and
// the subtree must not be lost.
func (s *Subtree) Walk(visit func(path []byte, n *Node, data []byte) Visited) (more bool) {
	for looked := 0; len(s.levels) > 0; {
		p := &s.levels[len(s.levels)-1]
		if p.visited {
			if looked >= mostLooked {
				return true
			}
			looked += s.seek(p)
			continue
		}
		n := s.frozen(p.id)
		acl := n.list
		if aclShows.Planted() && !n.gone {
			acl = s.tree.acls.entries[s.tree.arena.more(p.id).acl]
		}
		node := n.node(n.children, len(n.data), acl.list)
		visited := visit(s.path, &node, n.data)
		if visited == Again {
			return true
		}
		p.visited, p.more = true, visited == Enter && n.children > 0
	}
	return false
}

// seek does a step from p, which has been visited, towards the node that comes next, and returns at about how many
// children it has looked.
func (s *Subtree) seek(p *place) (looked int) {
	s.path = s.path[:p.pathLen]
	switch {
	case len(p.next) > 0:
		id := p.next[0]
		p.next = p.next[1:]
		if !bytes.HasSuffix(s.path, []byte("/")) {
			s.path = append(s.path, '/')
		}
		n := s.frozen(id)
		s.path = append(s.path, n.name...)
		s.levels = append(s.levels, place{id: id, pathLen: len(s.path)})
	case p.more:
		return s.fill(p)
	default:
		s.levels = s.levels[:len(s.levels)-1]
	}
	return 0
}

// fill sets the children of p that come after the last one, and returns at about how many it has looked.
func (s *Subtree) fill(p *place) (looked int) {
	isNew := func(c nodeID) bool {
		hidden := s.isNew(c)
		return hidden && !newShow.Planted()
	}
	p.next, p.after, p.more = s.childrenAfter(nil, p.id, p.after, nil, isNew)
	n := s.saved[p.id]
	switch gone := n != nil && n.gone; {
	case p.more:
		return batchSize
	case gone:
		return len(p.next)
	}
	return min(batchSize, int(s.tree.arena.more(p.id).children))
}

// NumSubtrees returns the number of open subtrees.
func (t *Tree) NumSubtrees() int { return len(t.subtrees) }
