package evaluate

import (
	"errors"
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// evaluateMulti evaluates all operations of a multi, each after the effects of the
// previous ones, or rejects them all. A multi that can't be decoded or has an operation
// that is no write fails as a whole. It takes a zxid nevertheless, except for a null ACL,
// as in Apache's server. Otherwise the outcome is one result for each operation.
func (e *Evaluator) evaluateMulti(txn *datatree.Txn) error {
	d := jute.NewAliasDecoder(e.req.Body)
	e.multi.Decode(&d)
	defer e.forgetMulti()
	switch {
	case errors.Is(d.Err(), jute.ErrNull):
		return errUndecodable
	case d.Err() != nil || e.multi.Reads() || !e.resolveOps():
		return jute.ErrMarshalling
	}
	txn.Multi = true
	for i := range e.multi.Ops {
		if err := e.op(&e.multi.Ops[i], txn); err != nil {
			e.over.rollback()
			e.room.grown = 0
			txn.Ops = appendFailed(txn.Ops[:0], len(e.multi.Ops), i, jute.CodeOf(err))
			return nil
		}
	}
	return nil
}

// OnlyDeletes reports whether a multi with this body deletes something and does nothing else.
func OnlyDeletes(body []byte) bool {
	var multi jute.MultiRequest
	d := jute.NewAliasDecoder(body)
	multi.Decode(&d)
	return d.Err() == nil && len(multi.Ops) > 0 && !slices.ContainsFunc(multi.Ops, func(op jute.MultiOp) bool {
		return op.Type != jute.OpDelete && op.Type != jute.OpDeleteTree
	})
}

// resolveOps gives each create its opcode in a multi, where the mode takes precedence
// over the opcode (Op.create in ZooKeeper 3.9). It returns false if a path is null: then
// the multi fails as a whole.
func (e *Evaluator) resolveOps() bool {
	for i := range e.multi.Ops {
		op := &e.multi.Ops[i]
		if op.NullPath {
			return false
		}
		switch op.Type {
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
			op.Type = createInMulti(op.Type, op.Mode)
		}
	}
	return true
}

// createInMulti returns the opcode of a create in a multi.
func createInMulti(op jute.OpCode, mode jute.CreateMode) jute.OpCode {
	switch {
	case mode == jute.ModeContainer:
		return jute.OpCreateContainer
	case op == jute.OpCreateTTL && !mode.TTL():
		return jute.OpCreate // the time to live has no effect; an unknown mode fails later
	}
	return op
}

// forgetMulti releases the request's body but keeps the list's memory, unless it is
// large.
func (e *Evaluator) forgetMulti() {
	const keep = 1024
	if cap(e.multi.Ops) > keep {
		e.multi.Ops = nil
		return
	}
	clear(e.multi.Ops)
}

// appendFailed appends the results of n operations, of which the one with index failed
// caused the failure: those before it count as OK, those after it as not tried.
func appendFailed(ops []datatree.Op, n, failed int, code jute.Code) []datatree.Op {
	for i := range n {
		op := datatree.Op{Kind: datatree.OpError, Result: jute.OpError}
		switch {
		case i == failed:
			op.Code = code
		case i > failed:
			op.Code = jute.ErrRuntimeInconsistency
		}
		ops = append(ops, op)
	}
	return ops
}
