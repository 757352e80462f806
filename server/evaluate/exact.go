package evaluate

import (
	"github.com/zkd-project/zkd/internal/exact"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// window returns the writes of an exactly-once session that are accepted and not confirmed.
func (e *Evaluator) window(s jute.SessionID) *exact.Window {
	w := e.windows[s]
	if w == nil {
		w = new(exact.Window)
		for _, o := range e.tree.Outcomes(s) {
			w.Add(o.Number, int64(len(o.Body)))
		}
		e.windows[s] = w
	}
	return w
}

// fits reports whether the request may have the effect of txn: it is not one that was accepted
// before, and there is room for its outcome. Clients that follow the rules make no others.
func (e *Evaluator) fits(txn *datatree.Txn) bool {
	w := e.window(e.req.Session)
	w.Confirm(e.req.Confirmed)
	again := e.req.Number <= w.Done()
	if doneAgain.Planted() {
		again = e.req.Number < w.Done()
	}
	return !again && w.Fits(costOf(txn))
}

// Accept notes that the transaction of the last request will be proposed.
func (e *Evaluator) Accept(txn *datatree.Txn) {
	numbered := txn.Number != 0
	numbered = numbered && !acceptedForgotten.Planted()
	if numbered {
		e.window(txn.Session).Add(txn.Number, costOf(txn))
	}
	e.noteRetirement(txn)
}

// costOf returns what the outcome of txn counts for at most.
func costOf(txn *datatree.Txn) int64 {
	paths := 0
	for i := range txn.Ops {
		if op := &txn.Ops[i]; op.Kind != datatree.OpDelete { // the reply does not have the path
			paths += len(op.Path)
		}
	}
	return exact.Cost(len(txn.Ops), paths)
}
