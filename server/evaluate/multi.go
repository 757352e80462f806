package evaluate

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// evaluateMulti evaluates all operations of a multi, each after the effects of
// those before it, or rejects them all. What can't be decoded, or mixes in what
// is no write, fails as a whole; otherwise the outcome is one result for each
// operation.
func (e *Evaluator) evaluateMulti(txn *datatree.Txn) error {
	d := jute.NewAliasDecoder(e.req.Body)
	e.multi.Decode(&d)
	defer e.forgetMulti()
	if d.Err() != nil || e.multi.Reads() || !e.modesValid() {
		return jute.ErrMarshalling
	}
	txn.Multi = true
	for i := range e.multi.Ops {
		if err := e.op(&e.multi.Ops[i], txn); err != nil {
			e.over.rollback()
			txn.Ops = appendFailed(txn.Ops[:0], len(e.multi.Ops), i, jute.CodeOf(err))
			return nil
		}
	}
	return nil
}

// modesValid reports whether the creates have known modes: in a multi Apache
// can't even decode others (since 3.7.2).
func (e *Evaluator) modesValid() bool {
	for i := range e.multi.Ops {
		if !e.multi.Ops[i].Mode.Valid() {
			return false
		}
	}
	return true
}

// forgetMulti lets go of the request's body but keeps the list's memory, unless
// it is large.
func (e *Evaluator) forgetMulti() {
	const keep = 1024
	if cap(e.multi.Ops) > keep {
		e.multi.Ops = nil
		return
	}
	clear(e.multi.Ops)
}

// appendFailed appends the results of n operations of which the one with index
// failed is to blame: those before it count as OK, those after it as not tried.
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
