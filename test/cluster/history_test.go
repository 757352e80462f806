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
}

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
