package subtrees

import (
	"github.com/zkd-project/zkd/internal/resume"
	"github.com/zkd-project/zkd/jute"
)

// Copy is a subtree that a feed keeps up to date: it is what the subtree was at one zxid, and all changes after that.
type Copy struct {
	Nodes
	Version jute.Zxid // up to which it has everything
	Lists   jute.Zxid // no ACL has changed after it, up to Version
}

// A Keeper carries out what changes make of the nodes of a Copy.
type Keeper interface {
	Put(path string, data []byte, stat jute.Stat)          // a node that may be new
	Set(n *Node, path string, data []byte, stat jute.Stat) // one that is there
	Remove(n *Node, path string, hidden bool)              // n may be nil. hidden: the node exists, but may not be read any more
}

// Apply makes a change. It reports whether there may be nodes that are not known: one can be read that could not.
func (c *Copy) Apply(change *jute.Change, k Keeper) (partial bool) {
	n := c.Find(change.Path)
	if n != nil && max(n.Stat.Czxid, n.Stat.Mzxid) > change.Zxid {
		return false // its data is very long, and was read later than the subtree
	}
	if change.Kind == jute.ChangeACL {
		c.Lists = change.Zxid
	}
	parent := jute.Parent(change.Path)
	switch {
	case change.Kind == jute.ChangeChildren:
		c.relist(change, change.Path, k)
	case change.Kind == jute.ChangeCreated:
		k.Put(change.Path, change.Data, change.Stat)
		c.relist(change, parent, k)
	case change.Kind == jute.ChangeDeleted:
		k.Remove(n, change.Path, false)
		c.relist(change, parent, k)
	case change.Lost():
		k.Remove(n, change.Path, true)
	case n == nil: // if it has become readable, it may have children
		return change.Path == c.Path || c.Find(parent) != nil
	case change.Kind == jute.ChangeData:
		k.Put(change.Path, change.Data, change.Stat)
	default:
		k.Set(n, change.Path, n.Data, change.Stat)
	}
	return false
}

// relist sets the Stat of a node of which a child was created or deleted.
func (c *Copy) relist(change *jute.Change, path string, k Keeper) {
	n := c.Find(path)
	if n == nil {
		return
	}
	stat := n.Stat
	stat.Pzxid, stat.Cversion, stat.NumChildren = change.Zxid, change.ParentCversion, change.ParentChildren
	k.Set(n, path, n.Data, stat)
}

// Look returns what is known of a path at Version. It reports false if it can't be known: the path is outside, or may not be read, or perhaps so.
func (c *Copy) Look(path string) (known resume.Remembered, ok bool) {
	n := c.Find(path)
	if known.Exists = n != nil; known.Exists {
		known.Stat, known.Data = n.Stat, n.Data
	}
	for above := path; n == nil; n = c.Find(above) { // a node that has been deleted has changed what is left above it
		if above == c.Path || c.Depth(above) < 0 {
			return known, false
		}
		above = jute.Parent(above)
	}
	known.Zxid = c.Version
	known.Since = max(n.Stat.Czxid, n.Stat.Mzxid, n.Stat.Pzxid, c.Lists)
	known.Whole = len(n.Kids) == int(n.Stat.NumChildren)
	known.Names = n.names
	return known, known.Since <= c.Version && (known.Exists || known.Whole)
}

// names appends the names of the children.
func (n *Node) names(to []string) []string {
	for _, kid := range n.Kids {
		to = append(to, kid.Name)
	}
	return to
}
