package evaluate

import (
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// An ensemble is retired while there is a node at jute.RetiredPath: another one has its state, and takes its place.
// What was written after that would be lost, and a session that ended would go on there. So there are no
// more transactions, except of operators: they connect, and remove the node.

// Retired reports whether the ensemble is retired by what is accepted.
func (e *Evaluator) Retired() bool { return e.retired }

// LookRetired reports whether the ensemble is retired by what is accepted, or still by what is applied, up to a zxid, and whether it was at the last
// look or at some time since.
func (e *Evaluator) LookRetired(applied jute.Zxid) (now, was bool) {
	now = e.retired || applied < e.served
	was, e.retiredAt = e.retiredAt, now
	return now, was
}

// AllowRetirement says whether all servers obey the node at jute.RetiredPath. If not, it can't be created.
func (e *Evaluator) AllowRetirement(may bool) { e.mayRetire = may }

// ForRetired reports whether a request is one that a retired ensemble evaluates.
func ForRetired(req *Request) bool {
	switch req.Op {
	case jute.OpCreateSession:
		return true
	case jute.OpDelete:
		d := jute.NewAliasDecoder(req.Body)
		return d.String() == jute.RetiredPath && d.Err() == nil
	}
	return false
}

// noteRetirement notes what an accepted transaction does to the node.
func (e *Evaluator) noteRetirement(txn *datatree.Txn) {
	if retiredOfTree.Planted() {
		return
	}
	for i := range txn.Ops {
		switch op := &txn.Ops[i]; {
		case op.Path != jute.RetiredPath:
		case op.Kind == datatree.OpCreate:
			e.retired = true
			if !briefUnseen.Planted() {
				e.retiredAt = true
			}
		case op.Kind == datatree.OpDelete:
			e.retired, e.served = false, txn.Zxid
		}
	}
}
