package sim

import (
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// Operations of extensions: clients create and delete a small tree in one step, take /taken
// only if /taker is absent, and write ephemerals that must be their own.

// treeLimit is the limit of each deleteTree.
const treeLimit = 4

// treePaths are the znodes of the tree. More of them than treeLimit can exist.
var treePaths = [...]string{"/tree", "/tree/a", "/tree/a/b", "/tree/b", "/tree/a/c", "/tree/a/b/d"}

// chooseOperations draws a multi with operations of extensions.
func (s *Sim) chooseOperations(req *request) {
	create := jute.MultiOp{Type: jute.OpCreate, Path: treePaths[s.rng.IntN(len(treePaths))], ACL: openACL}
	var ops []jute.MultiOp
	switch s.rng.IntN(10) {
	case 0, 1:
		ops = []jute.MultiOp{{Type: jute.OpDeleteTree, Path: pick(s.rng, "/tree", "/tree/a"), Version: -1, Limit: treeLimit}, create}
	case 2:
		ops = []jute.MultiOp{{Type: jute.OpCreateOrSet, Path: "/taken", ACL: openACL, Version: -1}, {Type: jute.OpCheckAbsent, Path: "/taker"}}
	case 3:
		ops = []jute.MultiOp{{Type: jute.OpDelete, Path: "/taker", Version: -1}}
	case 4:
		ops = []jute.MultiOp{{Type: jute.OpCreateOrSet, Path: "/taker", ACL: openACL, Version: -1}}
	case 5, 6:
		ops = []jute.MultiOp{{Type: jute.OpCreateOrSet, Path: "/own", ACL: openACL, Mode: jute.ModeEphemeral, Version: -1}}
	default:
		ops = []jute.MultiOp{create}
	}
	m := jute.MultiRequest{Ops: ops}
	req.op, req.body = jute.OpMulti, m.Append(nil)
}

// checkOperations checks a transaction that is about to be applied to the reference: /taken is
// not written while there is /taker, /own is set by its owner alone, and no more of the tree is
// deleted than the limit. X1. That a deleteTree leaves no znode out is S1.
func (s *Sim) checkOperations(txn *datatree.Txn) {
	if s.cfg.TreePct == 0 {
		return
	}
	deleted := 0
	for i := range txn.Ops {
		switch op := &txn.Ops[i]; {
		case op.Kind == datatree.OpDelete && strings.HasPrefix(op.Path, "/tree"):
			if deleted++; deleted > treeLimit {
				s.fail("X1", "%v deletes more than %d znodes", txn.Zxid, treeLimit)
			}
		case op.Kind == datatree.OpSetData && op.Path == "/own":
			if n, _ := s.ghost.tree.Get("/own"); n.Owner.Session() != txn.Session {
				s.fail("X1", "%v: session %v sets /own, which belongs to %v", txn.Zxid, txn.Session, n.Owner.Session())
			}
		case op.Path == "/taken":
			if _, ok := s.ghost.tree.Get("/taker"); ok {
				s.fail("X1", "%v takes /taken while there is /taker", txn.Zxid)
			}
		}
	}
}
