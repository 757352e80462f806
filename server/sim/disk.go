package sim

import (
	"math/rand/v2"
	"slices"

	"github.com/zkd-project/zkd/jute"
	"github.com/zkd-project/zkd/server/datatree"
	"github.com/zkd-project/zkd/server/zab"
)

// snapshot is a snapshot file. It never changes, so nodes that send it to each other share
// it.
type snapshot struct {
	zxid   jute.Zxid
	chain  uint64 // of the history up to zxid
	state  zab.State
	digest datatree.Digest
	rows   []datatree.Row
	bytes  int64
	by     zab.ID // incarnation of the server that took it
}

// chainedEntry is an entry with the hash of the history up to it: two histories with the same chain
// at some zxid are equal up to there.
type chainedEntry struct {
	zab.Entry
	chain uint64
}

// recKind is the kind of a record of the log.
type recKind uint8

const (
	recAppend recKind = iota + 1
	recPromise
	recTruncate
	recHint
	recInstall // a received snapshot replaces the history
	recSnap    // a snapshot of the node itself
	recNotes
	recIncarnation
	recForget // the references before a snapshot are dropped
)

// logRecord is a record of the log.
type logRecord struct {
	kind    recKind
	ent     chainedEntry
	promise zab.Promise
	upto    jute.Zxid
	snap    *snapshot

	notes       zab.Notes
	incarnation zab.ID
	damaged     bool
}

// history is the result of the records.
type history struct {
	exists      bool   // false: there is no log
	records     uint64 // total records of the log
	notes       zab.Notes
	incarnation zab.ID
	replaced    zab.ID // incarnation of the log that this one replaced
	damaged     bool   // a loss of acknowledged records was found

	promise zab.Promise
	hint    jute.Zxid
	snaps   []*snapshot // oldest first; the last one is the base
	// ents are the entries after start, whose chain is startChain. A snapshot may cover the first
	// ones.
	start      jute.Zxid
	startChain uint64
	ents       []chainedEntry
}

func (h *history) base() *snapshot {
	if len(h.snaps) == 0 {
		return nil
	}
	return h.snaps[len(h.snaps)-1]
}

// last returns the end of the history and its chain.
func (h *history) last() (jute.Zxid, uint64) {
	if n := len(h.ents); n > 0 {
		return h.ents[n-1].Zxid, h.ents[n-1].chain
	}
	return h.start, h.startChain
}

// search returns the index of the first entry after z.
func (h *history) search(z jute.Zxid) int {
	n := len(h.ents)
	if n == 0 || h.ents[n-1].Zxid <= z {
		return n
	}
	// Usually z is near the end, and of the same epoch.
	last := h.ents[n-1].Zxid
	if d := last - z; d <= jute.Zxid(n) && last.Epoch() == z.Epoch() {
		if i := n - int(d); i >= 1 && h.ents[i-1].Zxid == z {
			return i
		}
	}
	lo, hi := 0, n
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); h.ents[mid].Zxid <= z {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// chainAt returns the chain at z, if z is an entry or the start of the history.
func (h *history) chainAt(z jute.Zxid) (uint64, bool) {
	if i := h.search(z); i > 0 && h.ents[i-1].Zxid == z {
		return h.ents[i-1].chain, true
	}
	return h.startChain, z == h.start
}

// has reports whether the history contains z. Entries covered by a snapshot at the start
// are committed, so they count as contained.
func (h *history) has(z jute.Zxid) bool {
	if z <= h.start {
		return true
	}
	i := h.search(z)
	return i > 0 && h.ents[i-1].Zxid == z
}

func (h *history) apply(r *logRecord) {
	h.records++
	switch r.kind {
	case recAppend:
		h.ents = append(h.ents, r.ent)
	case recPromise:
		h.promise = r.promise
	case recTruncate:
		h.ents = h.ents[:h.search(r.upto)]
	case recHint:
		h.hint = r.upto
	case recInstall:
		h.snaps = append(h.snaps[:0:0], r.snap)
		h.ents = nil
		h.start, h.startChain = r.snap.zxid, r.snap.chain
	case recSnap:
		h.snaps = append(h.snaps[:len(h.snaps):len(h.snaps)], r.snap)
	case recNotes:
		h.notes = r.notes
	case recIncarnation:
		if r.incarnation != h.incarnation {
			h.replaced = h.incarnation // of dataDir, until the next start
		}
		h.incarnation, h.damaged = r.incarnation, r.damaged
	case recForget:
		h.snaps = slices.DeleteFunc(slices.Clone(h.snaps), func(snap *snapshot) bool { return snap.zxid < r.upto })
	}
}

// purge drops the entries up to a zxid. It reports whether there were any.
func (h *history) purge(upto jute.Zxid) bool {
	if upto <= h.start {
		return false
	}
	h.startChain, _ = h.chainAt(upto)
	h.ents = append([]chainedEntry(nil), h.ents[h.search(upto):]...)
	h.start = upto
	return true
}

func (h *history) bytes() (n int64) {
	for i := range h.ents {
		n += int64(len(h.ents[i].Data)) + 48
	}
	return n
}

func (h *history) clone() history {
	c := *h
	c.snaps = append([]*snapshot(nil), h.snaps...)
	c.ents = append([]chainedEntry(nil), h.ents...)
	return c
}

// disk is a server's disks: the model of its log, and its dataDir.
type disk struct {
	logVolume
	data      dataDir
	syncing   bool
	syncTo    uint64 // the fsync under way covers this many records
	syncSince uint64
}

// logVolume is the model of a log. The records not in durable are pending: a power cut keeps
// any prefix of them.
type logVolume struct {
	written history
	durable history
	pending []logRecord
	count   uint64   // records written, except lost ones
	real    *walDisk // nil without a real log
}

// durableCount returns the number of durable records.
func (d *disk) durableCount() uint64 { return d.count - uint64(len(d.pending)) }

func (d *disk) write(r logRecord) {
	d.written.apply(&r)
	d.pending = append(d.pending, r)
	d.count++
}

// goAhead makes a record durable before those that are pending. A snapshot of another server that is one of these replaces it.
func (d *disk) goAhead(r *logRecord) {
	d.durable.apply(r)
	if !d.replacing() {
		d.written.apply(r)
	}
}

// replacing reports whether a snapshot of another server is to replace the history.
func (d *disk) replacing() bool {
	return slices.ContainsFunc(d.pending, func(r logRecord) bool { return r.kind == recInstall })
}

// makeDurable makes the records up to number count durable.
func (d *disk) makeDurable(count uint64) {
	n := int(count - d.durableCount())
	for i := range d.pending[:n] {
		d.durable.apply(&d.pending[i])
	}
	rest := copy(d.pending, d.pending[n:])
	clear(d.pending[rest:])
	d.pending = d.pending[:rest]
}

// survivors draws how many pending records survive a power cut.
func (d *disk) survivors(r *rand.Rand) int {
	n := len(d.pending)
	if n == 0 {
		return 0
	}
	switch r.IntN(3) {
	case 0:
		return 0
	case 1:
		return n
	default:
		return r.IntN(n + 1)
	}
}

// cut drops the pending records.
func (d *disk) cut() {
	d.count -= uint64(len(d.pending))
	clear(d.pending)
	d.pending = d.pending[:0]
	d.written = d.durable.clone()
}

// read returns entries after after, at least one and about maxBytes in total. It returns
// false if the log does not reach back so far.
func (h *history) read(after jute.Zxid, maxBytes int) ([]zab.Entry, bool) {
	if _, ok := h.chainAt(after); !ok {
		return nil, false
	}
	var list []zab.Entry
	for i := h.search(after); i < len(h.ents); i++ {
		if len(list) > 0 && maxBytes <= 0 {
			break
		}
		list = append(list, h.ents[i].Entry)
		maxBytes -= len(h.ents[i].Data)
	}
	return list, true
}
