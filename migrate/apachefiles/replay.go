package apachefiles

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// apply makes a transaction so, whatever the tree has: a node may have been created, changed or
// deleted already, because the snapshot saw it later than other nodes. Each rule that looks
// superfluous on an exact state is one that a snapshot needs.
func (t *Tree) apply(x *Txn) {
	for i := range x.Ops {
		o := &x.Ops[i]
		switch o.Kind {
		case datatree.OpCreate:
			t.create(o, x)
		case datatree.OpDelete:
			t.delete(o.Path, x.Zxid)
		case datatree.OpSetData:
			t.setData(o, x)
		case datatree.OpSetACL:
			t.setACL(o)
		case datatree.OpAdoptSession:
			t.Sessions[x.Session] = o.TimeoutMs
		case datatree.OpCloseSession:
			t.closeSession(x.Session, o.Paths, x.Zxid)
		}
	}
	t.Last = max(t.Last, x.Zxid)
}

func (t *Tree) create(o *datatree.Op, x *Txn) {
	dir, name := split(o.Path)
	parent := t.find(dir)
	if parent == nil || name == "" {
		return // the parent was deleted later, or is the root's
	}
	counter := o.Cversion
	if counter == -1 {
		counter = parent.Cversion + 1
	}
	if counter > parent.Cversion { // else the parent is ahead
		t.change(dir, parent, func(n *Node) { n.Cversion, n.Pzxid = counter, x.Zxid })
	}
	if n := parent.children[name]; n != nil {
		// The snapshot has seen it, perhaps with an ACL that was not yet in its table of ACLs.
		n.ACL = t.intern(o.ACL)
		return
	}
	t.attach(parent, o.Path, name, &Node{
		Data: o.Data, ACL: t.intern(o.ACL),
		Stat: Stat{Czxid: x.Zxid, Mzxid: x.Zxid, Pzxid: x.Zxid, Ctime: x.Time, Mtime: x.Time, Owner: o.Owner},
	})
}

// delete deletes the node at path with everything below it: that was created after the node was
// deleted and created again, and its creation will follow.
func (t *Tree) delete(path string, zxid jute.Zxid) {
	dir, name := split(path)
	parent := t.find(dir)
	if parent == nil || name == "" {
		return
	}
	// The parent's change counts even if the snapshot has not seen the node.
	if zxid > parent.Pzxid {
		t.change(dir, parent, func(n *Node) { n.Pzxid = zxid })
	}
	if parent.children[name] != nil {
		t.detach(parent, path, name)
	}
}

func (t *Tree) setData(o *datatree.Op, x *Txn) {
	if n := t.find(o.Path); n != nil {
		t.change(o.Path, n, func(n *Node) { n.Data, n.Version, n.Mzxid, n.Mtime = o.Data, o.Version, x.Zxid, x.Time })
	}
}

func (t *Tree) setACL(o *datatree.Op) {
	if n := t.find(o.Path); n != nil {
		t.change(o.Path, n, func(n *Node) { n.ACL, n.Aversion = t.intern(o.ACL), o.Version })
	}
}

// closeSession deletes the nodes that the transaction lists, whatever session owns them now,
// and all that the session owns.
func (t *Tree) closeSession(id jute.SessionID, paths []string, zxid jute.Zxid) {
	delete(t.Sessions, id)
	for _, path := range paths {
		t.delete(path, zxid)
	}
	for path := range t.ephemerals[id] {
		t.delete(path, zxid)
	}
	delete(t.ephemerals, id)
}
