package line

import "github.com/zkd-project/zkd/jute"

// batch is what requests that have come together have in common.
type batch struct {
	mayAnswerLocally bool // they may be answered without the leader
	askedLeader      bool // one of them went to the leader
}

// needsBarrier reports whether the leader must confirm a request of the batch: see Line.NeedsBarrier.
func (b *batch) needsBarrier(op jute.OpCode, linearizable bool) bool {
	if b.askedLeader {
		return false
	}
	locally := b.mayAnswerLocally
	locally = locally || servedAlone.Planted()
	return !locally || linearizable && readsTree(op)
}

func readsTree(op jute.OpCode) bool {
	switch op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL,
		jute.OpGetAllChildrenNumber, jute.OpGetEphemerals, jute.OpMultiRead, jute.OpChildrenPage, jute.OpSubtreePage, jute.OpSubscribe:
		return true
	}
	return false
}
