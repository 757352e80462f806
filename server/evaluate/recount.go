package evaluate

import (
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// The usage of a quota is the text of a znode, which each write below the quota's path adds to. It is
// no longer that of the subtree when the quota had no limits for a while, when a client has written the
// text, or when the subtree has quotas of its own. So a write of a quota's limits or of its usage, and from time to
// time the server, creates the usage again: the tree counts it then, in all versions of zkd.

// noteQuota notes that a write of the node at path has the usage of a quota counted again, if it does.
func (e *Evaluator) noteQuota(path string, created bool) {
	if !strings.HasPrefix(path, datatree.QuotaPath+"/") {
		return
	}
	dir, name := jute.SplitPath(path)
	switch {
	case name == datatree.LimitsName && (created || e.tree.Drifts(dir[len(datatree.QuotaPath):])), name == datatree.StatsName && !created:
		e.recounts = append(e.recounts, strings.Clone(dir+"/"+datatree.StatsName))
	}
}

// recountNow adds what noteQuota has noted to the transaction. The answer to a single request shows the first
// operation only; that to a multi would show all of them, and so the server counts later: see datatree.Drifting.
func (e *Evaluator) recountNow(txn *datatree.Txn) {
	if !txn.Multi {
		for _, path := range e.recounts {
			_ = e.recount(path, txn) // the quota may have no usage
		}
	}
}

// recount creates the usage of a quota again, if it exists.
func (e *Evaluator) recount(path string, txn *datatree.Txn) error {
	r, ok := e.node(path)
	if !ok || r.numChildren > 0 || r.owner != jute.OwnerNone {
		return jute.ErrNoNode
	}
	e.deleteNode(path, txn)
	parent, _ := e.node(jute.Parent(path))
	e.addNode(path, parent, record{acl: r.acl, dataLength: r.dataLength, mtime: e.now})
	txn.Ops = append(txn.Ops, datatree.Op{
		Kind: datatree.OpCreate, Result: jute.OpCreate, Path: path, ACL: r.acl, Cversion: datatree.NextCount(parent.cversion),
	})
	return nil
}
