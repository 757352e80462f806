package zab

import (
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// history is the core's view of the server's log: where it ends, how much of it is durable
// and committed, and the state of the ensemble in it.
//
// Invariant: handed <= committed <= appended, handed <= durable <= appended.
type history struct {
	entries   cache // the newest; up to appended
	appended  jute.Zxid
	durable   jute.Zxid
	committed jute.Zxid
	handed    jute.Zxid // CommitTo of the last Take
	applied   jute.Zxid

	tip     State   // at appended
	settled State   // at committed
	control []Entry // the control entries after committed
	// Derived from control: the uncommitted lists of members, and the servers that the first
	// marker admits if it is not committed.
	pending []pendingMembers
	founded []Admission

	version uint64 // changes with the log, so that an unchanged log can be recognized

	logStart  jute.Zxid
	logBytes  int64
	snapZxid  jute.Zxid // of the newest snapshot
	snapBytes int64
}

// pendingMembers is a list of members in an entry that is not committed yet.
type pendingMembers struct {
	Members
	prev jute.Zxid // zxid of the previous entry
}

// push adds the next entry at the end. A transaction has been checked against tip before;
// any other entry is checked here.
func (h *history) push(e Entry) error {
	if e.Type == EntryTxn {
		h.tip.extend(e.Zxid)
	} else {
		if err := h.tip.Apply(&e); err != nil {
			return err
		}
		h.control = append(h.control, e)
		h.derivePending()
	}
	h.entries.append(e)
	h.appended = e.Zxid
	h.version++
	return nil
}

// truncate drops the entries after z, none of which is committed.
func (h *history) truncate(z jute.Zxid) {
	h.entries.truncate(z)
	n := 0
	for n < len(h.control) && h.control[n].Zxid <= z {
		n++
	}
	clear(h.control[n:])
	h.control = h.control[:n]
	h.tip = h.settled.Clone()
	for i := range h.control {
		h.tip.skipTo(h.control[i].Prev)
		if err := h.tip.Apply(&h.control[i]); err != nil {
			panic("zab: " + err.Error()) // it was applied before
		}
	}
	h.tip.skipTo(z)
	h.appended = z
	h.durable = min(h.durable, z)
	h.version++
	h.derivePending()
}

// replace makes a snapshot the whole history.
func (h *history) replace(s *SnapInfo) {
	h.entries = cache{}
	h.control = nil
	h.tip = s.State.Clone()
	h.settled = s.State.Clone()
	h.tip.Zxid, h.settled.Zxid = s.Zxid, s.Zxid
	h.appended = s.Zxid
	h.committed = s.Zxid
	h.logStart = s.Zxid
	h.logBytes = 0
	h.snapZxid, h.snapBytes = s.Zxid, s.Bytes
	h.version++
	h.derivePending()
}

// commit moves the committed point to z, and reports whether it passed control entries.
func (h *history) commit(z jute.Zxid) (control bool) {
	h.committed = z
	for len(h.control) > 0 && h.control[0].Zxid <= z {
		h.settled.skipTo(h.control[0].Prev)
		if err := h.settled.Apply(&h.control[0]); err != nil {
			panic("zab: " + err.Error()) // it was applied before, to tip
		}
		h.control = h.control[1:]
		control = true
	}
	h.settled.skipTo(z)
	if control {
		h.derivePending()
	}
	return control
}

// derivePending sets the fields derived from control. All entries have been decoded before.
func (h *history) derivePending() {
	h.pending, h.founded = nil, nil
	for i := range h.control {
		e := &h.control[i]
		switch e.Type {
		case EntryMembers:
			p := pendingMembers{prev: e.Prev}
			if changeForgotten.Planted() && e.Zxid.Epoch() < h.tip.Zxid.Epoch() {
				continue
			}
			if p.Decode(e.Data) == nil {
				p.Version = e.Zxid
				h.pending = append(h.pending, p)
			}
		case EntryMarker:
			var m Marker
			if m.Decode(e.Data) != nil {
				continue
			}
			if m.Init != nil && !h.settled.Seeded() && h.founded == nil {
				h.founded = m.Admitted
			}
			if m.Members != nil && h.settled.Members == nil && len(h.pending) == 0 {
				p := pendingMembers{Members: *m.Members, prev: e.Prev}
				p.Version, p.Text = e.Zxid, m.App
				h.pending = append(h.pending, p)
			}
		}
	}
}

// anchored reports whether the history has a list of members, committed or not.
func (h *history) anchored() bool { return h.tip.Members != nil }

// shrink drops the oldest entries from memory. Above maxBytes it drops entries that have
// been handed out as committed; above twice that it drops any, since the shell can read
// them from its log.
func (h *history) shrink(maxBytes int) {
	for h.entries.n > 0 && h.entries.bytes > maxBytes &&
		(h.entries.at(0).Zxid <= h.handed || h.entries.bytes > 2*maxBytes && maxBytes > 0) {
		h.entries.drop()
	}
}

// admits reports whether a server counts with an incarnation, in a history that has a first
// marker: by the committed state, or by the marker's own list if the marker is not
// committed.
func (h *history) admits(a Admission) bool {
	list := h.settled.Admitted
	if !h.settled.Seeded() {
		list = h.founded
	}
	if founderVotes.Planted() && !slices.ContainsFunc(list, func(o Admission) bool { return o.Server == a.Server }) {
		return true
	}
	return slices.Contains(list, a)
}
