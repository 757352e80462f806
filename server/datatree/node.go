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

// node copies id.
func (t *Tree) node(id nodeID) Node {
	r := t.arena.rec(id)
	at := t.arena.attrs(r)
	return at.node(t.arena.more(id).children, r.bytes(), t.acls.list(at.acl))
}

func (at *attrs) node(children int32, dataLen int, acl []jute.ACL) Node {
	return Node{
		Czxid:       at.czxid,
		Mzxid:       at.mzxid,
		Pzxid:       at.pzxid,
		Ctime:       at.ctime,
		Mtime:       at.mtime,
		Version:     at.version,
		Cversion:    at.cversion,
		Aversion:    at.aversion,
		Owner:       at.owner,
		NumChildren: children,
		DataLength:  int32(dataLen),
		ACL:         acl,
	}
}

// stat returns the Stat of id.
func (t *Tree) stat(id nodeID) jute.Stat {
	n := t.node(id)
	return n.Stat()
}
