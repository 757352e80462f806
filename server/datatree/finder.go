package datatree

import (
	"iter"
	"strings"
)

// finder finds znodes by their paths, one after the other, for one goroutine. It begins at the deepest
// node that a path has in common with the last one, so that what many operations on one subtree cost
// does not depend on its depth.
type finder struct {
	tree     *Tree
	levels   []found // the nodes on the way to the last one, without the root
	path     []byte  // of the last of levels
	unlinked uint64  // Tree.unlinked when levels was right

	lookups int // in the index, for tests
}

// found is a node, and where its path ends in that of a node below it.
type found struct {
	id  nodeID
	end int
}

// find does what Tree.find does.
func (f *finder) find(path string) nodeID {
	if path == "" || path == "/" {
		return rootID
	}
	if path[0] != '/' {
		return 0
	}
	id, end := f.back(path)
	kept := end
	for end < len(path) {
		start := end + 1
		next := len(path)
		if i := strings.IndexByte(path[start:], '/'); i >= 0 {
			next = start + i
		}
		f.lookups++
		if id = f.tree.index.find(&f.tree.arena, id, path[start:next]); id == 0 {
			break
		}
		end = next
		f.levels = append(f.levels, found{id, end})
	}
	f.path = append(f.path[:kept], path[kept:end]...)
	return id
}

// back returns to the deepest node that is on the way to path, and where its path ends.
func (f *finder) back(path string) (id nodeID, end int) {
	if f.unlinked != f.tree.unlinked {
		f.levels, f.unlinked = f.levels[:0], f.tree.unlinked
	}
	common := commonPrefix(f.path, path)
	for n := len(f.levels); n > 0; n-- {
		top := f.levels[n-1]
		if top.end <= common && (top.end == len(path) || path[top.end] == '/') {
			return top.id, top.end
		}
		f.levels = f.levels[:n-1]
	}
	return rootID, 0
}

// forget notes that id, which has no children, has just been unlinked.
func (f *finder) forget(id nodeID) {
	n := len(f.levels)
	deepest := n > 0 && f.levels[n-1].id == id
	deepest = deepest && !unlinkedKept.Planted()
	if deepest {
		f.levels = f.levels[:n-1]
	}
	f.unlinked = f.tree.unlinked
}

// commonPrefix returns the length of the longest prefix that both have.
func commonPrefix(a []byte, b string) int {
	const block = 64
	n, at := min(len(a), len(b)), 0
	for at+block <= n && string(a[at:at+block]) == b[at:at+block] {
		at += block
	}
	for at < n && a[at] == b[at] {
		at++
	}
	return at
}

// Reader reads a tree for one goroutine, with the tree's read lock. It is for many look-ups in a row:
// what a look-up costs depends on how far a path is from the one before it.
type Reader struct {
	*Tree
	finder finder
}

// NewReader returns a reader of the tree.
func (t *Tree) NewReader() *Reader { return &Reader{Tree: t, finder: finder{tree: t}} }

// Get does what Tree.Get does.
func (r *Reader) Get(path string) (Node, bool) {
	id := r.finder.find(path)
	if id == 0 {
		return Node{}, false
	}
	return r.node(id), true
}

// Data does what Tree.Data does.
func (r *Reader) Data(path string) ([]byte, bool) {
	id := r.finder.find(path)
	if id == 0 {
		return nil, false
	}
	return r.arena.data(id), true
}

// Children does what Tree.Children does.
func (r *Reader) Children(path string) iter.Seq[string] { return r.namesBelow(r.finder.find(path)) }

// Lookups returns how often the reader has looked up a name below a node.
func (r *Reader) Lookups() int { return r.finder.lookups }
