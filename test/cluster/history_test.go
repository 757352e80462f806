package cluster

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// history is all that the clients of a round sent and heard.
type history struct {
	prefix string
	ops    []*op
	logs   []*connLog
	lives  map[jute.SessionID]*life
	// before is the zxid that all of the history lies behind.
	before jute.Zxid
	// refused is when servers began to refuse writes for want of room, and when that had
	// ended.
	refused [2]int64
}

// refuse sets the time in which servers refuse writes for want of room. What fails then
// may have no transaction. Neither may the closes of sessions that begin then: they may
// be local ones.
func (h *history) refuse(span [2]int64) {
	h.refused = span
	for _, o := range h.ops {
		fails := o.write() && o.state == refused && o.ret > span[0] && o.call < span[1]
		l := h.lives[o.session]
		if fails || o.code == jute.OpCloseSession && l != nil && h.local(l) {
			o.unlogged, o.zxid = true, 0
		}
	}
	for _, l := range h.lives {
		if h.local(l) {
			l.closed = 0
		}
	}
}

// local reports whether a session may be one that a single server knows.
func (h *history) local(l *life) bool { return l.begun >= h.refused[0] && l.begun < h.refused[1] }

// collect puts together what clients have recorded.
func collect(prefix string, before jute.Zxid, clients []*client) *history {
	h := &history{prefix: prefix, before: before, lives: make(map[jute.SessionID]*life)}
	for _, c := range clients {
		h.ops = append(h.ops, c.ops...)
		h.logs = append(h.logs, c.logs...)
		for _, l := range c.lives {
			h.lives[l.id] = l
		}
	}
	slices.SortStableFunc(h.ops, func(a, b *op) int { return int(a.call - b.call) })
	return h
}

// acknowledged counts the writes that were acknowledged.
func (h *history) acknowledged() (n int) {
	for _, o := range h.ops {
		if o.write() && o.state == done {
			n++
		}
	}
	return n
}

func (h *history) count(s outcome) (n int) {
	for _, o := range h.ops {
		if o.state == s {
			n++
		}
	}
	return n
}

// longestGap returns the longest time between two acknowledged writes that ended
// after from, or began at from.
func (h *history) longestGap(from int64) (gap int64) {
	var ends []int64
	for _, o := range h.ops {
		if o.write() && o.state == done && o.ret >= from {
			ends = append(ends, o.ret)
		}
	}
	slices.Sort(ends)
	last := from
	for _, end := range ends {
		gap = max(gap, end-last)
		last = end
	}
	return gap
}
