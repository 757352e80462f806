package evaluate

import (
	"github.com/zkd-project/zkd/internal/fifo"
	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
)

// room bounds the memory of the tree. A request that adds to the memory is refused when the tree would
// have more than the limit. Deletes and sets of shorter data are evaluated always, and a multi up to the
// first operation with which it adds more than it has freed. So a full tree can be made smaller.
type room struct {
	limit   int64 // of datatree.Tree.Memory; 0 for none
	grown   int64 // by the request that is being evaluated
	refused bool  // the last request, for lack of room
	pending int64 // the sum of growths
	growths fifo.List[growth]
}

// growth is what an accepted transaction adds to the tree that does not have it yet.
type growth struct {
	zxid  jute.Zxid
	bytes int64
}

// accept counts the growth of the request that was evaluated last.
func (r *room) accept(zxid jute.Zxid) {
	counts := r.limit > 0 && r.grown != 0
	counts = counts && !pendingNotCounted.Planted()
	if counts {
		r.pending += r.grown
		r.growths.Push(growth{zxid, r.grown})
	}
}

// applied drops the growths of transactions that the tree has.
func (r *room) applied(zxid jute.Zxid) {
	for r.growths.Len() > 0 && r.growths.Front().zxid <= zxid {
		r.pending -= r.growths.Front().bytes
		r.growths.Pop(1)
	}
}

// sessionReserve is the part of the limit by which new sessions may exceed it: clients that can free
// memory have to get in.
const sessionReserve = 16

// SetRoom bounds the memory of the tree, in bytes of datatree.Tree.Memory, for the requests to come. 0 is no
// bound.
func (e *Evaluator) SetRoom(limit int64) { e.room.limit = limit }

// OutOfRoom reports whether the last request was refused since the tree has no room for it.
func (e *Evaluator) OutOfRoom() bool { return e.room.refused }

// grow counts that the request adds bytes to the tree. It fails if the request has then added more than
// it has freed, and the tree has no room for that.
func (e *Evaluator) grow(bytes int64) error { return e.growTo(bytes, e.room.limit) }

func (e *Evaluator) growTo(bytes, limit int64) error {
	r := &e.room
	grown := r.grown + bytes
	over := limit > 0 && e.tree.Memory()+r.pending+grown > limit
	refused := over && bytes > 0 && grown > 0
	refused = refused || shrinkingRefused.Planted() && over
	if refused {
		r.refused = true
		return jute.ErrNotReadOnly
	}
	r.grown = grown
	return nil
}

// growSession counts a new session.
func (e *Evaluator) growSession() error {
	limit := e.room.limit
	return e.growTo(datatree.NewSessionMemory, limit+limit/sessionReserve)
}

// shrink counts that the node at path is deleted.
func (e *Evaluator) shrink(path string) {
	if e.room.limit == 0 {
		return
	}
	if r, ok := e.node(path); ok {
		e.room.grown -= nodeMemory(path, int(r.dataLength))
	}
}

// nodeMemory is the memory of the node at path, but for its ACL.
func nodeMemory(path string, data int) int64 {
	return datatree.NodeMemory(len(path)-len(jute.Parent(path)), data)
}
