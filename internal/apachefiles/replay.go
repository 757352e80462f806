package apachefiles

import "github.com/zkd-project/zkd/jute"

// apply makes a transaction so, whatever the tree has: a node may have been created, changed or
// deleted already, because the snapshot saw it later than other nodes. Each rule that looks
// superfluous on an exact state is one that a snapshot needs.
func (t *Tree) apply(x *txn) {
	for i := range x.ops {
		o := &x.ops[i]
		switch o.kind {
		case txnCreate:
			t.create(o, x)
		case txnDelete:
			t.delete(o.path, x.zxid)
		case txnSetData:
			t.setData(o, x)
		case txnSetACL:
			t.setACL(o)
		case txnCreateSession:
			t.Sessions[x.session] = o.timeout
		case txnCloseSession:
			t.closeSession(x.session, o.paths, x.zxid)
		}
	}
	t.Last = max(t.Last, x.zxid)
}

func (t *Tree) create(o *op, x *txn) {
	dir, name := split(o.path)
	parent := t.find(dir)
	if parent == nil || name == "" {
		return // the parent was deleted later, or is the root's
	}
	counter := o.version
	if counter == -1 {
		counter = parent.Cversion + 1
	}
	if counter > parent.Cversion { // else the parent is ahead
		t.change(dir, parent, func(n *Node) { n.Cversion, n.Pzxid = counter, x.zxid })
	}
	if n := parent.children[name]; n != nil {
		// The snapshot has seen it, perhaps with an ACL that was not yet in its table of ACLs.
		n.ACL = t.intern(o.acl)
		return
	}
	t.attach(parent, o.path, name, &Node{
		Data: o.data, ACL: t.intern(o.acl),
		Stat: Stat{Czxid: x.zxid, Mzxid: x.zxid, Pzxid: x.zxid, Ctime: x.time, Mtime: x.time, Owner: o.owner},
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

func (t *Tree) setData(o *op, x *txn) {
	path := o.path
	if path == "/" {
		path = ""
	}
	if n := t.find(path); n != nil {
		t.change(path, n, func(n *Node) { n.Data, n.Version, n.Mzxid, n.Mtime = o.data, o.version, x.zxid, x.time })
	}
}

func (t *Tree) setACL(o *op) {
	path := o.path
	if path == "/" {
		path = ""
	}
	if n := t.find(path); n != nil {
		t.change(path, n, func(n *Node) { n.ACL, n.Aversion = t.intern(o.acl), o.version })
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
