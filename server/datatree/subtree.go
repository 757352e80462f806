package datatree

import (
	"bytes"

	"github.com/zkd-project/zkd/jute"
)

// Subtree is a node and all below it, as they were at the moment of FreezeBelow, to be walked while the
// tree changes. Like a View it consists of the tree and of the saved versions of the nodes
// that have changed since.
type Subtree struct {
	tree  *Tree
	zxid  jute.Zxid
	saved map[nodeID]*savedNode
	most  int  // saved nodes
	lost  bool // there would have been more: the state is not known any more

	// The walk. ids are the node to be visited next and those above it, up to the root of the
	// subtree; paths has, for each of them, the length of its path.
	ids   []nodeID
	paths []int
	path  []byte
}

// FreezeBelow opens a subtree, unless there is no node at path. It is given up when more than most
// nodes of the whole tree have changed. The tree must be locked for reading, and no other goroutine may
// call FreezeBelow or Subtree.Close meanwhile.
func (t *Tree) FreezeBelow(path string, most int) (s *Subtree, ok bool) {
	id := t.find(path)
	if id == 0 {
		return nil, false
	}
	s = &Subtree{tree: t, zxid: t.lastZxid, saved: make(map[nodeID]*savedNode), most: most}
	s.path = append(s.path, path...)
	s.ids, s.paths = append(s.ids, id), append(s.paths, len(path))
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
	s.saved, s.ids = nil, nil
}

// Zxid returns the zxid of the state.
func (s *Subtree) Zxid() jute.Zxid { return s.zxid }

// Lost reports whether the subtree is given up.
func (s *Subtree) Lost() bool { return s.lost }

func (s *Subtree) save(id nodeID) {
	if _, ok := s.saved[id]; ok || s.lost || mutated(writesShow) {
		return
	}
	if len(s.saved) == s.most {
		s.saved, s.lost = nil, true
		return
	}
	n := s.tree.copyOf(id)
	s.saved[id] = &n
}

// frozen returns id as it was.
func (s *Subtree) frozen(id nodeID) savedNode {
	if n, ok := s.saved[id]; ok {
		return *n
	}
	return s.tree.copyOf(id)
}

// Visited is what Subtree.Walk does after a node.
type Visited uint8

// The ways to continue.
const (
	Enter Visited = iota // with its children
	Skip                 // without what is below it
	Again                // not now; the node comes next the next time
)

// Walk calls visit for each node that comes next, parents before their children and these in no
// particular order, until there are no more or visit returns Again. The path is
// valid during the call. The data must not be changed. The tree must be locked for reading, and
// the subtree must not be lost.
func (s *Subtree) Walk(visit func(path []byte, n *Node, data []byte) Visited) (more bool) {
	for len(s.ids) > 0 {
		id := s.ids[len(s.ids)-1]
		n := s.frozen(id)
		node := n.rec.node(n.acl.list)
		visited := visit(s.path, &node, dataOf(&n.rec, n.blob))
		switch {
		case visited == Again:
			return true
		case visited == Enter && n.rec.first != 0 && !(mutated(childrenLost) && s.tree.arena.rec(id).first == 0):
			s.push(n.rec.first)
		default:
			s.leave(n.rec.next)
		}
	}
	return false
}

// push makes a child of the node that was visited last the next one.
func (s *Subtree) push(id nodeID) {
	if !bytes.HasSuffix(s.path, []byte("/")) {
		s.path = append(s.path, '/')
	}
	n := s.frozen(id)
	s.path = append(s.path, n.blob[:n.rec.nameLen]...)
	s.ids, s.paths = append(s.ids, id), append(s.paths, len(s.path))
}

// leave leaves the node that was visited last, whose next sibling is given, for the next one.
func (s *Subtree) leave(next nodeID) {
	for {
		top := len(s.ids) - 1
		s.ids, s.paths = s.ids[:top], s.paths[:top]
		if top == 0 {
			return // the siblings of the root are not part of it
		}
		s.path = s.path[:s.paths[top-1]]
		if next != 0 {
			s.push(next)
			return
		}
		next = s.frozen(s.ids[top-1]).rec.next
	}
}

// NumSubtrees returns the number of open subtrees.
func (t *Tree) NumSubtrees() int { return len(t.subtrees) }
