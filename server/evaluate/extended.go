package evaluate

import (
	"slices"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// The operations of jute.FeatureOperations occur only in a multi. Their effects are those of
// creates, deletes, sets and checks, so that logs and servers of earlier versions know them.

// checkAbsent changes nothing. Like exists, it needs READ where there is a node.
func (e *Evaluator) checkAbsent(op *jute.MultiOp, txn *datatree.Txn) error {
	if err := e.checkSession(); err != nil {
		return err
	}
	if err := nodePath(op.Path); err != nil {
		return err
	}
	r, ok := e.node(op.Path)
	if mutated(absentOfTree) {
		_, ok = e.tree.Get(op.Path)
	}
	switch {
	case ok && !e.allowed(&r, jute.PermRead):
		return jute.ErrNoAuth
	case ok:
		return jute.ErrNodeExists
	}
	txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpCheck, Result: jute.OpCheck})
	return nil
}

func (e *Evaluator) createOrSet(op *jute.MultiOp, txn *datatree.Txn) error {
	if op.Mode.Sequential() {
		return jute.ErrBadArguments
	}
	r, ok := e.node(op.Path)
	if !ok {
		create := *op
		create.Type = createInMulti(jute.OpCreate2, op.Mode)
		return e.create(&create, txn)
	}
	if !e.allowed(&r, jute.PermWrite) {
		return jute.ErrNoAuth
	}
	if op.Mode.Ephemeral() != r.owner.Ephemeral() || r.owner.Ephemeral() && r.owner.Session() != e.req.Session && !mutated(setsAnothers) {
		return jute.ErrNodeExists
	}
	return e.setData(op, txn)
}

// deleteTree deletes a node with all nodes below it, by as many deletes, children first, and a
// check. That marks the end of the deletes in the reply.
func (e *Evaluator) deleteTree(op *jute.MultiOp, txn *datatree.Txn) error {
	if e.trees++; e.trees > 1 {
		return jute.ErrBadArguments // each of them looks through all that is pending
	}
	if _, err := e.deletable(op); err != nil {
		return err
	}
	paths, err := e.subtree(strings.Clone(op.Path), jute.TreeLimit(op.Limit))
	if err != nil {
		return err
	}
	for _, path := range slices.Backward(paths) {
		e.deleteNode(path, txn)
	}
	txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpCheck, Result: jute.OpCheck})
	return nil
}

// subtree returns the paths of the node at root and of all nodes below it, parents first. It
// fails if these are more than limit, or if the caller may not list and delete each of them.
func (e *Evaluator) subtree(root string, limit int) ([]string, error) {
	paths, seen := []string{root}, map[string]bool{root: true}
	add := func(path string) (more bool) {
		if _, ok := e.node(path); ok && !seen[path] {
			seen[path] = true
			paths = append(paths, path)
		}
		return len(paths) <= limit || mutated(limitIgnored)
	}
	for path := range e.over.nodes { // sorted below
		if strings.HasPrefix(path, root+"/") && !mutated(subtreeOfTree) && !add(path) {
			return nil, jute.ErrNotEmpty
		}
	}
	for i := 0; i < len(paths); i++ {
		for name := range e.tree.Children(paths[i]) {
			if !add(paths[i] + "/" + name) {
				return nil, jute.ErrNotEmpty
			}
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		r, _ := e.node(path)
		if r.numChildren > 0 && !(e.allowed(&r, jute.PermRead) && e.allowed(&r, jute.PermDelete)) {
			return nil, jute.ErrNoAuth
		}
	}
	return paths, nil
}
