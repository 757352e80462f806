package evaluate

import (
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// isSystemNode reports whether path is one of the nodes that always exist.
func isSystemNode(path string) bool {
	switch path {
	case "/", "/zookeeper", "/zookeeper/quota", datatree.ConfigPath:
		return true
	}
	return false
}

func (e *Evaluator) delete(op *jute.MultiOp, txn *datatree.Txn) error {
	r, err := e.deletable(op)
	if err != nil {
		return err
	}
	if r.numChildren > 0 {
		return jute.ErrNotEmpty
	}
	e.deleteNode(strings.Clone(op.Path), txn)
	return nil
}

// deletable returns the node that op deletes, if that is allowed but for its children.
func (e *Evaluator) deletable(op *jute.MultiOp) (record, error) {
	if err := e.checkSession(); err != nil {
		return record{}, err
	}
	parentPath, err := parentOf(op)
	if err != nil {
		return record{}, err
	}
	if isSystemNode(op.Path) {
		return record{}, jute.ErrBadArguments
	}
	parent, ok := e.node(parentPath)
	if !ok {
		return record{}, jute.ErrNoNode
	}
	if !e.allowed(&parent, jute.PermDelete) {
		return record{}, jute.ErrNoAuth
	}
	r, ok := e.node(op.Path)
	if !ok {
		return record{}, jute.ErrNoNode
	}
	return r, checkVersion(op.Version, r.version)
}

// remove evaluates deleteContainer, a request of the server itself: it deletes a
// container or TTL node that was due if it still is. There is no session, and no ACL
// check.
func (e *Evaluator) remove(txn *datatree.Txn) error {
	if e.req.Session != 0 {
		return jute.ErrUnimplemented // Apache lets clients delete any node by it
	}
	due := &e.req.Removal
	if isSystemNode(due.Path) || nodePath(due.Path) != nil {
		return jute.ErrBadArguments
	}
	r, ok := e.node(due.Path)
	if !ok {
		return jute.ErrNoNode
	}
	if r.numChildren > 0 {
		return jute.ErrNotEmpty
	}
	_, ttl := r.owner.TTL()
	if !ttl && !r.owner.Container() || r.cversion != due.Cversion || r.mtime != due.Mtime {
		return jute.ErrBadVersion
	}
	e.deleteNode(due.Path, txn)
	return nil
}

func (e *Evaluator) deleteNode(path string, txn *datatree.Txn) {
	e.dropNode(path)
	txn.Ops = append(txn.Ops, datatree.Op{Kind: datatree.OpDelete, Result: jute.OpDelete, Path: path})
}

// dropNode records that the node at path, which exists, is deleted.
func (e *Evaluator) dropNode(path string) {
	parentPath := jute.Parent(path)
	parent, _ := e.node(parentPath)
	parent.numChildren--
	e.over.put(parentPath, parent)
	e.shrink(path)
	e.over.put(path, record{gone: true})
}
