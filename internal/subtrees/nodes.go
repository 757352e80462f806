package subtrees

import (
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
)

// Nodes are the nodes of a subtree: each with a pointer to its parent and its children sorted by
// name. Paths are not stored but assembled, so that a node costs its struct, its name, its data
// and a pointer. It is not safe for concurrent use.
type Nodes struct {
	Path  string // of Root
	Root  *Node  // nil if it does not exist
	Len   int
	Bytes int64
}

// Node is a znode.
type Node struct {
	Name   string // "" for the root
	parent *Node
	Kids   []*Node // sorted by name
	Data   []byte
	Stat   jute.Stat
	Gen    uint32 // for the user
}

// NodeBytes is the size of a node besides name and data: its struct and the pointer to it.
const NodeBytes = 168

func (n *Node) size() int64 { return int64(NodeBytes + len(n.Name) + len(n.Data)) }

// Kid returns the index of the child of that name, or where it belongs, and whether it
// exists.
func (n *Node) Kid(name string) (int, bool) {
	if len(n.Kids) == 0 || n.Kids[len(n.Kids)-1].Name < name {
		return len(n.Kids), false // children that come in order are appended
	}
	return slices.BinarySearchFunc(n.Kids, name, func(k *Node, name string) int { return strings.Compare(k.Name, name) })
}

// Walk calls each for a node and those below it, parents first.
func (n *Node) Walk(path string, each func(n *Node, path string)) {
	each(n, path)
	for _, kid := range n.Kids {
		kid.Walk(jute.Join(path, kid.Name), each)
	}
}

// below returns the part of the path below the root's, without a leading /, and whether the
// path is the root's or below it.
func (t *Nodes) below(path string) (rest string, ok bool) {
	if t.Path == "/" {
		return strings.CutPrefix(path, "/")
	}
	rest, ok = strings.CutPrefix(path, t.Path)
	if !ok || rest == "" {
		return "", ok
	}
	return strings.CutPrefix(rest, "/")
}

// Depth returns the number of levels below the root's path, or -1.
func (t *Nodes) Depth(path string) int {
	rest, ok := t.below(path)
	switch {
	case !ok:
		return -1
	case rest == "":
		return 0
	}
	return 1 + strings.Count(rest, "/")
}

// Find returns the node at a path, or nil.
func (t *Nodes) Find(path string) *Node {
	rest, ok := t.below(path)
	n := t.Root
	if !ok {
		return nil
	}
	for more := rest != ""; more && n != nil; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		i, found := n.Kid(name)
		if !found {
			return nil
		}
		n = n.Kids[i]
	}
	return n
}

// Add adds a node that does not exist. It returns nil if there is no parent, unless it is the root.
func (t *Nodes) Add(path string, data []byte, stat jute.Stat) *Node {
	n := &Node{Data: data, Stat: stat}
	if path == t.Path {
		t.Root = n
	} else {
		above, name := jute.SplitPath(path)
		if n.parent = t.Find(above); n.parent == nil {
			return nil
		}
		n.Name = strings.Clone(name) // so that the whole path is not kept in memory
		i, _ := n.parent.Kid(name)
		n.parent.Kids = slices.Insert(n.parent.Kids, i, n)
	}
	t.Len++
	t.Bytes += n.size()
	return n
}

// Set replaces a node's data and stat.
func (t *Nodes) Set(n *Node, data []byte, stat jute.Stat) {
	t.Bytes += int64(len(data) - len(n.Data))
	n.Data, n.Stat = data, stat
}

// Remove removes a node and all nodes below it. It calls each for all of them, children
// first.
func (t *Nodes) Remove(n *Node, path string, each func(n *Node, path string)) {
	if n.parent == nil {
		t.Root = nil
	} else if i, ok := n.parent.Kid(n.Name); ok {
		n.parent.Kids = slices.Delete(n.parent.Kids, i, i+1)
	}
	t.forget(n, path, each)
}

// Prune is Remove for the children of n that are not to be kept.
func (t *Nodes) Prune(n *Node, path string, keep func(kid *Node) bool, each func(n *Node, path string)) {
	n.Kids = slices.DeleteFunc(n.Kids, func(kid *Node) bool {
		gone := !keep(kid)
		if gone {
			t.forget(kid, jute.Join(path, kid.Name), each)
		}
		return gone
	})
	if len(n.Kids) == 0 {
		n.Kids = nil
	}
}

func (t *Nodes) forget(n *Node, path string, each func(n *Node, path string)) {
	for _, kid := range n.Kids {
		t.forget(kid, jute.Join(path, kid.Name), each)
	}
	n.Kids = nil
	t.Len--
	t.Bytes -= n.size()
	each(n, path)
}
