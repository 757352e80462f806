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
	before   jute.Zxid
	shortage shortage
}

// shortage is a time in which servers may refuse writes because a disk is full. A leader
// does so until another one leads.
type shortage struct {
	from, to int64
	quorum   bool // too few disks have room for a quorum
}

// lack sets the time in which servers refuse writes because a disk is full. A write that
// fails then may have no transaction. If there is no quorum with room, sessions that
// begin then may be local ones, and their closes have no transaction either.
func (h *history) lack(s shortage) {
	h.shortage = s
	for _, o := range h.ops {
		fails := o.write() && o.state == refused && o.ret > s.from && o.call < s.to
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
func (h *history) local(l *life) bool {
	return h.shortage.quorum && l.begun >= h.shortage.from && l.begun < h.shortage.to
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
