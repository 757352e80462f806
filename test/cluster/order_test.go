package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/zkd-project/zkd/jute"
)

// checkOrder checks that the order of zxids is that of real time, of sessions and
// of connections. The ledger must have been made before: it finds the zxids of
// ops without an answer.
func checkOrder(h *history) findings {
	var f findings
	checkUnique(h, &f)
	checkRealTime(h, &f)
	checkSessions(h, &f)
	for _, log := range h.logs {
		checkMonotonic(log, &f)
	}
	return f
}

// checkUnique checks that no two writes have one zxid.
func checkUnique(h *history, f *findings) {
	owner := make(map[jute.Zxid]*op)
	for _, o := range h.ops {
		if !o.write() || o.zxid == 0 {
			continue
		}
		if other := owner[o.zxid]; other != nil {
			f.add("zxid %v is that of two writes:\n\t%v\n\t%v", o.zxid, other, o)
		}
		owner[o.zxid] = o
	}
}

// moment is where an op begins or ends.
type moment struct {
	at  int64
	end bool
	op  *op
}

// checkRealTime checks that an op has a larger zxid than every write that was
// answered before it was sent. Of reads that holds for those behind a sync, from
// when that was sent: for those the zxid may be equal.
func checkRealTime(h *history, f *findings) {
	var list []moment
	for _, o := range h.ops {
		if o.zxid == 0 {
			continue
		}
		switch {
		case o.write():
			list = append(list, moment{o.call, false, o})
			if o.ret != forever {
				list = append(list, moment{o.ret, true, o})
			}
		case o.read() && o.since() > 0:
			list = append(list, moment{o.since(), false, o})
		}
	}
	slices.SortFunc(list, func(a, b moment) int {
		if a.at == b.at && a.end != b.end { // touching is not before
			if a.end {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.at, b.at)
	})
	var last *op // of those answered, the one with the largest zxid
	for _, m := range list {
		switch {
		case m.end:
			if last == nil || m.op.zxid > last.zxid {
				last = m.op
			}
		case last == nil:
		case m.op.write() && m.op.zxid <= last.zxid:
			f.add("a later write has the smaller zxid:\n\t%v\n\tafter %v", m.op, last)
		case m.op.zxid < last.zxid:
			f.add("a read after a sync is late:\n\t%v\n\tafter %v", m.op, last)
		}
	}
}

// checkSessions checks that the writes of a session happen in the order in which
// they were sent, whichever connections they took.
func checkSessions(h *history, f *findings) {
	last := make(map[jute.SessionID]*op)
	for _, o := range h.ops { // in the order of calls
		if !o.write() || o.zxid == 0 {
			continue
		}
		if before := last[o.session]; before != nil && before.zxid >= o.zxid {
			f.add("writes of a session are out of order:\n\t%v\n\tafter %v", o, before)
		}
		last[o.session] = o
	}
	for _, o := range h.ops {
		if l := h.lives[o.session]; l != nil && l.closed != 0 && o.write() && o.zxid > l.closed {
			f.add("a write after the end of its session at %v: %v", l.closed, o)
		}
	}
}

// checkMonotonic checks that the zxids of replies do not go back, from what the
// client had seen when it connected.
func checkMonotonic(log *connLog, f *findings) {
	last := log.seen
	for _, fr := range log.frames {
		if fr.kind == anEvent && fr.zxid <= 0 {
			continue
		}
		if fr.kind == aReply && fr.op.code == jute.OpSync && fr.zxid == 0 {
			continue
		}
		if fr.zxid < last {
			f.add("session %v, server %d: zxid %v after %v, frame %+v", log.session, log.server, fr.zxid, last, fr)
		}
		last = max(last, fr.zxid)
	}
}

// checkExpiry checks that no session has ended before its time. slack is how much
// earlier a session may end that only read and pinged.
func checkExpiry(h *history, slack time.Duration) findings {
	var f findings
	for _, l := range h.lives {
		if l.expired == 0 || l.closing || h.local(l) {
			continue
		}
		if early := l.written + l.timeout - l.expired; early > 0 {
			f.add("session %v expired %v too early after a write", l.id, time.Duration(early))
		}
		if early := l.touched + l.timeout - l.expired - int64(slack); early > 0 {
			f.add("session %v expired %v too early after a sign of life", l.id, time.Duration(early))
		}
	}
	return f
}
