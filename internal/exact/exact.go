package exact

import (
	"github.com/zkd-project/zkd/internal/fifo"
	"github.com/zkd-project/zkd/jute"
)

// cycle is the number of different xids. The xids of the numbers 1, 2, 3 and so on are 1 to cycle,
// then 1 again.
const cycle = 1<<31 - 1

// Xid returns the xid of a request, which has a number of at least 1. That of 0 is 0.
func Xid(number int64) int32 {
	if number <= 0 {
		return 0
	}
	return int32((number-1)%cycle) + 1
}

// Number returns the number of the request with an xid, which is at least 1, that a client sends
// when it has the replies to all requests up to the number confirmed. The request is one of the next
// cycle after these.
func Number(confirmed int64, xid int32) int64 {
	after := (int64(xid) - int64(Xid(confirmed))) % cycle
	if after <= 0 {
		after += cycle
	}
	return confirmed + after
}

// Covers reports whether a request is a write that is done exactly once. Changes of the ensemble
// are not, and closing a session twice does no harm.
func Covers(op jute.OpCode) bool {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete,
		jute.OpSetData, jute.OpSetACL, jute.OpMulti:
		return true
	}
	return false
}

// Reads reports whether an operation is a read that may be asked again.
func Reads(op jute.OpCode) bool {
	switch op {
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetACL, jute.OpGetEphemerals,
		jute.OpGetAllChildrenNumber, jute.OpMultiRead, jute.OpSync:
		return true
	}
	return false
}

// Fate is what becomes of a request that was under way when its connection was lost, on the next
// connection of its session.
type Fate uint8

// The fates.
const (
	Again    Fate = iota // it was not done, and never will be as sent before: it is sent again
	Answered             // it was done, and the server has sent its reply
	Refused              // it was not done and never will be. The server refused it, and the reply was lost.
	Lost                 // it is no write, and a later write is done: asked again, it could see that write
)

// FateOf returns the fate of the request with a number. covered is Covers of its operation, done is
// the number of the session's last write that has an outcome, and replied means that the
// server has sent the reply to the request.
func FateOf(number int64, covered bool, done int64, replied bool) Fate {
	again := number > done
	if notResent.Planted() && covered {
		again = false
	}
	switch {
	case again:
		return Again
	case !covered:
		return Lost
	case replied:
		return Answered
	}
	return Refused
}

// Bounds of the outcomes that are kept for a session. A write for which there is no room waits at
// its client until earlier ones are answered. One with a large outcome has room when there are no
// others.
const (
	MaxWrites = 4096
	MaxCost   = 1 << 20
)

// Cost bounds the memory of one kept outcome: that of a write with ops operations and bytes bytes
// of paths.
func Cost(ops, bytes int) int64 { return int64(128*max(ops, 1) + bytes) }

// Window has the writes of a session that are not confirmed, as far as bounds concern them. The
// zero Window is empty.
type Window struct {
	list fifo.List[write]
	cost int64
	done int64
}

type write struct{ number, cost int64 }

// Done returns the number of the last write.
func (w *Window) Done() int64 { return w.done }

// Confirm removes the writes up to a number.
func (w *Window) Confirm(number int64) {
	for w.list.Len() > 0 && w.list.Front().number <= number {
		w.cost -= w.list.Front().cost
		w.list.Pop(1)
	}
}

// Fits reports whether there is room for a write.
func (w *Window) Fits(cost int64) bool {
	n := w.list.Len()
	return n == 0 || n < MaxWrites && w.cost+cost <= MaxCost
}

// Low reports whether at most half of the room is used.
func (w *Window) Low() bool {
	return w.list.Len() <= MaxWrites/2 && w.cost <= MaxCost/2 || w.list.Len() == 0
}

// Add adds a write, whose number is higher than those before.
func (w *Window) Add(number, cost int64) {
	w.list.Push(write{number, cost})
	w.cost += cost
	w.done = number
}

// Clear removes all writes.
func (w *Window) Clear() { *w = Window{} }
