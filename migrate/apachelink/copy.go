package apachelink

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/migrate/apachefiles"
	"github.com/zkd-project/zkd/server/datatree"
)

// Copy is an exact copy of the tree of a running ensemble, with the digest by which Apache's
// servers compare theirs.
type Copy struct {
	Tree *datatree.Tree
	// Digests counts the transactions whose digest was compared.
	Digests int64

	digest  uint64
	touched map[string]struct{}
	out     datatree.Applied
}

// NewCopy returns a copy that begins with a tree, which must be exact.
func NewCopy(tree *datatree.Tree) *Copy {
	c := &Copy{Tree: tree, touched: make(map[string]struct{})}
	c.count("")
	return c
}

// count adds the node at path and all below it to the digest.
func (c *Copy) count(path string) {
	c.digest += c.hash(path)
	for _, name := range slices.Collect(c.Tree.Children(path)) {
		c.count(path + "/" + name)
	}
}

// Digest returns Apache's digest of the tree: see [apachefiles.Tree.Digest].
func (c *Copy) Digest() uint64 { return c.digest }

// Events returns the events of the transaction that was applied last. They are valid until the next one.
func (c *Copy) Events() []datatree.Event { return c.out.Events }

// Follows returns an error if x can't be the next transaction.
func (c *Copy) Follows(x *apachefiles.Txn) error { return follows(c.Tree.LastZxid(), x.Zxid) }

// Apply applies the next transaction. After an error the tree is not Apache's.
func (c *Copy) Apply(x *apachefiles.Txn) error {
	skipped := c.Tree.Stats().Skipped
	clear(c.touched)
	for i := range x.Ops {
		if err := c.touch(x, &x.Ops[i]); err != nil {
			return err
		}
	}
	for path := range c.touched {
		c.digest -= c.hash(path)
	}
	c.Tree.Apply(&x.Txn, &c.out)
	for path := range c.touched {
		c.digest += c.hash(path)
	}
	if c.Tree.Stats().Skipped != skipped {
		return fmt.Errorf("transaction %v does not fit the tree: it is not the leader's", x.Zxid)
	}
	if x.Digest == nil {
		return nil
	}
	if c.digest != *x.Digest {
		return fmt.Errorf("after transaction %v the digest of the tree is %x, and the leader had %x", x.Zxid, c.digest, *x.Digest)
	}
	c.Digests++
	return nil
}

// touch notes the nodes that an operation changes.
func (c *Copy) touch(x *apachefiles.Txn, o *datatree.Op) error {
	note := func(path string) {
		c.touched[path] = struct{}{}
		c.touched[path[:max(strings.LastIndexByte(path, '/'), 0)]] = struct{}{}
	}
	switch o.Kind {
	case datatree.OpCreate:
		if o.Cversion == -1 {
			return fmt.Errorf("transaction %v does not say how many children %s has had: the leader is too old", x.Zxid, o.Path)
		}
		note(o.Path)
	case datatree.OpDelete, datatree.OpSetData, datatree.OpSetACL:
		note(o.Path)
	case datatree.OpCloseSession:
		for path := range c.Tree.Ephemerals(x.Session, "") {
			note(path)
		}
	}
	return nil
}

// hash returns the part of the node at path of the digest, 0 if there is none.
func (c *Copy) hash(path string) uint64 {
	data, n, ok := c.Tree.GetData(path)
	if !ok {
		return 0
	}
	return apachefiles.NodeHash(path, data, &apachefiles.Stat{
		Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid, Ctime: n.Ctime, Mtime: n.Mtime,
		Version: n.Version, Cversion: n.Cversion, Aversion: n.Aversion, Owner: n.Owner,
	})
}

// follows returns an error if the transaction z can't follow the one with the zxid last.
func follows(last, z jute.Zxid) error {
	if z == last+1 && z.Epoch() == last.Epoch() || z.Epoch() > last.Epoch() && z.Counter() == 1 {
		return nil
	}
	return fmt.Errorf("transaction %v can't follow %v", z, last)
}
