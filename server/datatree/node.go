package datatree

import "github.com/zkd-project/zkd/jute"

// Node is a copy of a znode without its data.
type Node struct {
	Czxid, Mzxid, Pzxid jute.Zxid
	Ctime, Mtime        int64 // ms since the Unix epoch
	Version             int32
	// Cversion is the number of children ever created: the stored counter, not
	// the one that a Stat shows.
	Cversion    int32
	Aversion    int32
	Owner       jute.Owner
	NumChildren int32
	DataLength  int32      // bytes, 0 for null
	ACL         []jute.ACL // shared: read only
}

// shownCversion returns the Cversion of a Stat. It counts creates and deletes of children:
// the deletes are the creates minus the current children.
func shownCversion(creates, children int32) int32 { return 2*creates - children }

// Stat returns the node's state as clients see it.
func (n *Node) Stat() jute.Stat {
	return jute.Stat{
		Czxid:          n.Czxid,
		Mzxid:          n.Mzxid,
		Ctime:          n.Ctime,
		Mtime:          n.Mtime,
		Version:        n.Version,
		Cversion:       shownCversion(n.Cversion, n.NumChildren),
		Aversion:       n.Aversion,
		EphemeralOwner: n.Owner.Session(),
		DataLength:     n.DataLength,
		NumChildren:    n.NumChildren,
		Pzxid:          n.Pzxid,
	}
}

// node copies the record of id.
func (t *Tree) node(id nodeID) Node {
	r := t.arena.rec(id)
	return r.node(t.acls.list(r.acl))
}

func (r *record) node(acl []jute.ACL) Node {
	return Node{
		Czxid:       r.czxid,
		Mzxid:       r.mzxid,
		Pzxid:       r.pzxid,
		Ctime:       r.ctime,
		Mtime:       r.mtime,
		Version:     r.version,
		Cversion:    r.cversion,
		Aversion:    r.aversion,
		Owner:       r.owner,
		NumChildren: r.children,
		DataLength:  int32(r.bytes()),
		ACL:         acl,
	}
}

// stat returns the Stat of id.
func (t *Tree) stat(id nodeID) jute.Stat {
	n := t.node(id)
	return n.Stat()
}
