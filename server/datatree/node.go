package datatree

import "github.com/zkd-project/zkd/jute"

// Node is a copy of a znode without its data.
type Node struct {
	Czxid, Mzxid, Pzxid jute.Zxid
	Ctime, Mtime        int64 // ms since the Unix epoch
	Version             int32 // as stored, like Aversion: see DataVersion
	// Cversion is the number of children ever created: the stored counter, not
	// the one that a Stat shows.
	Cversion    int32
	Aversion    int32
	Owner       jute.Owner
	NumChildren int32
	DataLength  int32      // bytes, 0 for null
	ACL         []jute.ACL // shared: read only
}

// shownVersion returns a version of the node as clients see it. A request with -1 means any version,
// so no node shows -1: its next write could not be made conditional. It can be stored, by Apache's
// server, and shows as 0 then. The exception are the nodes that every tree has, as clients know
// them: -1 is what /zookeeper/config shows after each change of the members.
func (n *Node) shownVersion(stored int32) int32 {
	if stored == -1 && n.Czxid != 0 {
		return 0
	}
	return stored
}

// DataVersion and ACLVersion are the versions with which a request that is conditional is compared.
func (n *Node) DataVersion() int32 { return n.shownVersion(n.Version) }

// ACLVersion is described at DataVersion.
func (n *Node) ACLVersion() int32 { return n.shownVersion(n.Aversion) }

// NextVersion returns the version after v, which wraps around and leaves out -1: see Node.DataVersion.
func NextVersion(v int32) int32 {
	if v == -2 {
		return 0
	}
	return v + 1
}

// NextCount returns the count of created children after n. It wraps around and leaves out 0, which
// means that there never was a child. It is also the number of the next sequential child.
func NextCount(n int32) int32 {
	if n == -1 {
		return 1
	}
	return n + 1
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
		Version:        n.DataVersion(),
		Cversion:       shownCversion(n.Cversion, n.NumChildren),
		Aversion:       n.ACLVersion(),
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

func (t *Tree) stat(id nodeID) jute.Stat {
	n := t.node(id)
	return n.Stat()
}
