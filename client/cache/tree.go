package cache

import (
	"slices"
	"strings"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/jute"
)

// subtree is what the cache has in memory: nodes with a pointer to their parent and their children
// sorted by name. Paths are not stored but assembled, so that a node costs its struct, its
// name, its data and a pointer.
type subtree struct {
	path  string // of root
	root  *node  // nil if it does not exist
	len   int
	bytes int64
}

// node is a znode.
type node struct {
	name   string // "" for the root
	parent *node
	kids   []*node // sorted by name
	data   []byte
	stat   client.Stat
	// gen is the loop's generation in which the list of children became complete.
	gen uint32
}

// nodeBytes is the size of a node besides name and data: its struct and the pointer to it.
const nodeBytes = 168

func (n *node) size() int64 { return int64(nodeBytes + len(n.name) + len(n.data)) }

func (n *node) at(path string) Node { return Node{Path: path, Data: n.data, Stat: n.stat} }

// kid returns the index of the child of that name, or where it belongs, and whether it
// exists.
func (n *node) kid(name string) (int, bool) {
	if len(n.kids) == 0 || n.kids[len(n.kids)-1].name < name {
		return len(n.kids), false // children that come in order are appended
	}
	return slices.BinarySearchFunc(n.kids, name, func(k *node, name string) int { return strings.Compare(k.name, name) })
}

// split returns the path of the parent, and the name.
func split(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 1)], path[i+1:]
}

// below returns the part of the path below the root's, without a leading /, and whether the
// path is the root's or below it.
func (t *subtree) below(path string) (rest string, ok bool) {
	if t.path == "/" {
		return strings.CutPrefix(path, "/")
	}
	rest, ok = strings.CutPrefix(path, t.path)
	if !ok || rest == "" {
		return "", ok
	}
	return strings.CutPrefix(rest, "/")
}

// depth returns the number of levels below the root's path, or -1.
func (t *subtree) depth(path string) int {
	rest, ok := t.below(path)
	switch {
	case !ok:
		return -1
	case rest == "":
		return 0
	}
	return 1 + strings.Count(rest, "/")
}

// find returns the node at a path, or nil.
func (t *subtree) find(path string) *node {
	rest, ok := t.below(path)
	n := t.root
	if !ok {
		return nil
	}
	for more := rest != ""; more && n != nil; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		i, found := n.kid(name)
		if !found {
			return nil
		}
		n = n.kids[i]
	}
	return n
}

// add adds a node that does not exist. Its parent must exist, unless it is the root.
func (t *subtree) add(parent *node, name string, data []byte, stat client.Stat) *node {
	n := &node{parent: parent, data: data, stat: stat}
	if parent == nil {
		t.root = n
	} else {
		n.name = strings.Clone(name) // so that the whole path is not kept in memory
		i, _ := parent.kid(name)
		parent.kids = slices.Insert(parent.kids, i, n)
	}
	t.len++
	t.bytes += n.size()
	return n
}

// set replaces a node's data and stat.
func (t *subtree) set(n *node, data []byte, stat client.Stat) {
	t.bytes += int64(len(data) - len(n.data))
	n.data, n.stat = data, stat
}

// remove removes a node and all nodes below it. It calls each for all of them, children
// first.
func (t *subtree) remove(n *node, path string, each func(n *node, path string)) {
	t.forget(n, path, each)
	if n.parent == nil {
		t.root = nil
		return
	}
	if i, ok := n.parent.kid(n.name); ok {
		n.parent.kids = slices.Delete(n.parent.kids, i, i+1)
	}
}

func (t *subtree) forget(n *node, path string, each func(n *node, path string)) {
	for _, kid := range n.kids {
		t.forget(kid, jute.Join(path, kid.name), each)
	}
	n.kids = nil
	t.len--
	t.bytes -= n.size()
	each(n, path)
}

// list returns the nodes at a path and below, parents first.
func (t *subtree) list(path string) []Node {
	n := t.find(path)
	if n == nil {
		return nil
	}
	var nodes []Node
	if n == t.root {
		nodes = make([]Node, 0, t.len)
	}
	return n.appendTo(nodes, path)
}

func (n *node) appendTo(nodes []Node, path string) []Node {
	nodes = append(nodes, n.at(path))
	for _, kid := range n.kids {
		nodes = kid.appendTo(nodes, jute.Join(path, kid.name))
	}
	return nodes
}
