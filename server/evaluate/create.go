package evaluate

import (
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// create evaluates create, create2, createContainer and createTTL.
func (e *Evaluator) create(op *jute.MultiOp, txn *datatree.Txn) error {
	owner, err := e.ownerOf(op)
	if err != nil {
		return err
	}
	if err := e.checkOwner(owner); err != nil {
		return err
	}
	parentPath, err := parentOf(op)
	if err != nil {
		return err
	}
	acl, err := e.fixACL(op.ACL)
	if err != nil {
		return err
	}
	parent, ok := e.node(parentPath)
	if !ok {
		return jute.ErrNoNode
	}
	if !e.allowed(&parent, jute.PermCreate) {
		return jute.ErrNoAuth
	}
	path := op.Path
	if op.Mode.Sequential() {
		path = withSequence(path, parent.cversion)
	}
	if err := e.checkNew(path, &parent, int64(len(op.Data))); err != nil {
		return err
	}
	if path == jute.RetiredPath && !e.mayRetire {
		return jute.ErrUnimplemented
	}
	if err := e.grow(nodeMemory(path, len(op.Data)) + datatree.ACLMemory(acl)); err != nil {
		return err
	}
	if !op.Mode.Sequential() {
		path = strings.Clone(path) // it is a part of the request's body
	}
	e.noteQuota(path, true)
	e.addNode(path, parent, record{owner: owner, acl: acl, dataLength: int32(len(op.Data)), mtime: e.now})
	txn.Ops = append(txn.Ops, datatree.Op{
		Kind:     datatree.OpCreate,
		Result:   createResult(op.Type),
		Path:     path,
		Data:     op.Data,
		ACL:      acl,
		Owner:    owner,
		Cversion: datatree.NextCount(parent.cversion),
	})
	return nil
}

// ownerOf checks mode and time to live, and returns the owner to be stored. The opcode,
// not the mode, makes a container: create with mode 4 makes an ordinary node.
func (e *Evaluator) ownerOf(op *jute.MultiOp) (jute.Owner, error) {
	ttlOp := op.Type == jute.OpCreateTTL
	switch {
	case !op.Mode.Valid():
		return 0, jute.ErrBadArguments
	case op.Mode.TTL() && !e.opts.ExtendedTypes:
		return 0, jute.ErrUnimplemented
	case op.Mode.TTL() != ttlOp:
		// With createTTL: Apache 3.8 accepts another mode if ttl is negative, and crashes
		// when it applies the transaction.
		return 0, jute.ErrBadArguments
	case ttlOp && (op.TTL < 1 || op.TTL > jute.MaxTTL):
		return 0, jute.ErrBadArguments
	case ttlOp:
		return jute.OwnerTTL(op.TTL), nil
	case op.Type == jute.OpCreateContainer:
		return jute.OwnerContainer, nil
	case op.Mode.Ephemeral():
		return jute.OwnerSession(e.req.Session), nil
	}
	return jute.OwnerNone, nil
}

// checkNew checks that a node may be created at path under parent.
func (e *Evaluator) checkNew(path string, parent *record, size int64) error {
	if err := nodePath(path); err != nil {
		return err
	}
	if _, ok := e.node(path); ok {
		return jute.ErrNodeExists
	}
	if parent.owner.Ephemeral() {
		return jute.ErrNoChildrenForEphemerals
	}
	return e.checkQuota(path, 1, size)
}

// addNode records that r is created at path as a child of parent.
func (e *Evaluator) addNode(path string, parent, r record) {
	parent.cversion = datatree.NextCount(parent.cversion)
	parent.numChildren++
	e.over.put(jute.Parent(path), parent)
	e.over.put(path, r)
	if s := r.owner.Session(); s != 0 {
		e.over.addEphemeral(s, path)
	}
}

// createResult returns the opcode of the result in a multi: only a plain create has a
// result without a Stat.
func createResult(op jute.OpCode) jute.OpCode {
	if op == jute.OpCreate {
		return jute.OpCreate
	}
	return jute.OpCreate2
}

// withSequence returns path followed by the number n.
func withSequence(path string, n int32) string {
	var buf [128]byte
	return string(jute.AppendSequence(append(buf[:0], path...), n))
}
