package evaluate

import (
	"iter"
	"math"
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
	if absentOfTree.Planted() {
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
	anothers := r.owner.Ephemeral() && r.owner.Session() != e.req.Session
	anothers = anothers && !setsAnothers.Planted()
	if anothers || op.Mode.Ephemeral() != r.owner.Ephemeral() {
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
	top, err := e.deletable(op)
	if err != nil {
		return err
	}
	paths, err := e.subtree(branch{strings.Clone(op.Path), top}, jute.TreeLimit(op.Limit))
	if err != nil {
		return err
	}
	for _, path := range slices.Backward(paths) {
		e.deleteNode(path, txn)
	}
	txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpCheck, Result: jute.OpCheck})
	return nil
}

// branch is a node of a subtree.
type branch struct {
	path string
	record
}

// subtree returns the paths of the node top and of all nodes below it, parents first. It fails if
// these are more than limit, or if the caller may not list and delete each of them. It also fails if the paths
// are too long: of nodes far below the root, a short request would make a transaction of any length.
func (e *Evaluator) subtree(top branch, limit int) (paths []string, err error) {
	pending := e.pendingBelow(top.path)
	bytes, longest, denied := len(top.path), jute.MaxDeleteTreePaths, false
	if limitIgnored.Planted() {
		longest, limit = math.MaxInt, math.MaxInt
	}
	for next := []branch{top}; len(next) > 0; {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		paths = append(paths, at.path)
		if at.numChildren == 0 {
			continue
		}
		denied = denied || !e.allowed(&at.record, jute.PermRead) || !e.allowed(&at.record, jute.PermDelete)
		siblings := len(next)
		for child := range e.childrenOf(&at, pending) {
			next = append(next, child)
			bytes += len(child.path)
			if bytes > longest || len(paths)+len(next) > limit {
				return nil, jute.ErrNotEmpty
			}
		}
		slices.SortFunc(next[siblings:], func(a, b branch) int { return strings.Compare(b.path, a.path) })
	}
	if denied {
		return nil, jute.ErrNoAuth
	}
	return paths, nil
}

// pendingBelow returns the nodes below the one at path that accepted transactions have touched and that
// will exist, by the paths of their parents.
func (e *Evaluator) pendingBelow(path string) map[string][]branch {
	below := make(map[string][]branch)
	prefix := path + "/"
	e.spend(len(e.over.nodes) / 16)
	for path, r := range e.over.nodes {
		included := !r.gone && strings.HasPrefix(path, prefix)
		included = included && !subtreeOfTree.Planted()
		if included {
			parent := jute.Parent(path)
			below[parent] = append(below[parent], branch{path, r})
		}
	}
	return below
}

// touched reports whether accepted transactions have touched the node at path.
func (e *Evaluator) touched(path string) bool {
	_, touched := e.over.nodes[path]
	return touched && !subtreeOfTree.Planted()
}

// childrenOf yields the children that a node will have, in any order. pending has what accepted
// transactions have touched.
func (e *Evaluator) childrenOf(at *branch, pending map[string][]branch) iter.Seq[branch] {
	return func(yield func(branch) bool) {
		for _, child := range pending[at.path] {
			e.lookedAt(child.path)
			if !yield(child) {
				return
			}
		}
		for name := range e.tree.Children(at.path) {
			path := at.path + "/" + name
			e.lookedAt(path)
			if e.touched(path) {
				continue
			}
			if r, ok := e.node(path); ok && !yield(branch{path, r}) {
				return
			}
		}
	}
}
