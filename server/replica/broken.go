package replica

import (
	"fmt"
	"strings"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/evaluate"
	"github.com/zkd-project/zkd/server/zab"
)

// A panic in the evaluation of a request would be the end of one leader after the other: the servers submit
// the request again in each interlude, and so do clients. But an evaluation changes nothing except its evaluator. So
// that is given up instead: the request is refused, with jute.ErrSystemError, and no other one is evaluated until all
// that was proposed is applied. Then the tree alone says what will be, as when a leader begins, and a new evaluator
// continues.

// evaluateOne evaluates a request, and reports whether it has a transaction. See leading.broken.
func (r *Replica) evaluateOne(req *evaluate.Request, zxid jute.Zxid, wall int64, txn *datatree.Txn) (ok bool) {
	defer func() {
		if cause := recover(); cause != nil {
			r.breakEvaluator(req, cause)
			ok = false
		}
	}()
	return r.leading.evaluator.Evaluate(req, zxid, wall, txn)
}

// breakEvaluator gives up the evaluator after a panic. It is called where that is recovered from.
func (r *Replica) breakEvaluator(req *evaluate.Request, cause any) {
	if !brokenKept.Planted() {
		r.leading.broken = true
	}
	r.stats.Broken++
	d := jute.NewAliasDecoder(req.Body)
	path := d.String()
	if req.Op == jute.OpMulti || d.Err() != nil {
		path = ""
	}
	r.broken = strings.TrimSpace(fmt.Sprintf("%v %s", req.Op, path))
	text := fmt.Sprintf("a request can't be evaluated, and is refused: %v %q of session %v, xid %d, %d bytes: %v; report this", req.Op, path, req.Session, req.Cxid, len(req.Body), cause)
	if r.o.Callers != nil {
		text += ", with where it was: " + r.o.Callers()
	}
	r.event(zab.Error, ServerOf(req.Origin), text)
}

// Broken names the last request that could not be evaluated, or is "".
func (r *Replica) Broken() string { return r.broken }

// renewEvaluator replaces the evaluator that was given up, as soon as that is possible, and reports whether it was.
func (r *Replica) renewEvaluator() bool {
	behind := r.o.State.Applied() < r.Core.LastZxid()
	behind = behind && !renewedEarly.Planted()
	if behind {
		return false
	}
	tree := r.o.State.RLock()
	defer r.o.State.RUnlock()
	r.newEvaluator(tree)
	r.leading.broken = false
	return true
}

// newEvaluator begins to evaluate by a tree that has all that was proposed. It is locked for reading.
func (r *Replica) newEvaluator(tree *datatree.Tree) {
	r.leading.evaluator = evaluate.New(tree.NewReader(), r.o.Schemes, r.o.Evaluate)
	r.leading.evaluator.SetRoom(r.room.bytes)
	r.mayRetire()
}
