package wal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// tailInfo is what the records of the last segment prove.
type tailInfo struct {
	durable uint64 // number of the last record proven durable
	bytes   int64  // of the records after that one
	torn    *TornTail
}

// load reads and checks the segments. The log in memory then ends at the last record proven
// durable. It changes nothing on disk.
func (l *Log) load(firsts []uint64) (tailInfo, error) {
	var tail tailInfo
	var w window
	for i, first := range firsts {
		path := filepath.Join(l.o.Dir, segmentName(first))
		var err error
		if i+1 < len(firsts) {
			err = l.loadClosed(&w, path, first, firsts[i+1]-1)
		} else {
			tail, err = l.loadLast(&w, path, first)
		}
		if err != nil {
			return tailInfo{}, l.explain(err, firsts, i)
		}
	}
	return tail, nil
}

// checkBeginning detects missing first segments: a history that does not begin at zxid 0
// needs a snapshot to build on.
func (l *Log) checkBeginning() error {
	if len(l.mu.segs) == 0 || len(l.usableRefs()) > 0 {
		return nil
	}
	if seg := l.mu.segs[0]; seg.first > 1 {
		return &damage{kind: fault.Missing, path: filepath.Join(l.o.Dir, segmentName(1)), seq: 1, proven: seg.first - 1, zxid: l.mu.floor.last,
			cause: fmt.Errorf("%s is the first that is there, and no snapshot is recorded that makes up for what was before", filepath.Base(seg.path))}
	}
	return nil
}

// check calls the caller's checks of what was read, before anything is changed.
func (l *Log) check() error {
	if l.o.Check == nil {
		return nil
	}
	var rec Recovered
	l.summarize(&rec)
	return l.o.Check(&rec)
}

// usableRefs returns the references whose entries are not purged.
func (l *Log) usableRefs() []refAt {
	return slices.DeleteFunc(slices.Clone(l.mu.refs), func(r refAt) bool { return r.Zxid < l.mu.floor.last })
}

// mark holds the values that loading records changes.
type mark struct {
	seq          uint64
	crc          uint32
	st           state
	seg          segment
	refs         []refAt
	dead         []span
	floor        place
	control      []Record
	sinceSnapRef int64
}

func (l *Log) mark() mark {
	return mark{seq: l.seq, crc: l.crc, st: l.st, seg: *l.seg, refs: l.mu.refs, dead: l.mu.dead,
		floor: l.mu.floor, control: l.control.mark(), sinceSnapRef: l.mu.stats.SinceSnapRef}
}

func (l *Log) restore(m mark) {
	l.seq, l.crc, l.st, *l.seg = m.seq, m.crc, m.st, m.seg
	l.mu.refs, l.mu.dead, l.mu.floor, l.mu.stats.SinceSnapRef = m.refs, m.dead, m.floor, m.sinceSnapRef
	l.control.entries = m.control
}

// damage is a place where durable data can't be used. load turns it into a CorruptError.
type damage struct {
	kind   fault.Kind
	path   string
	offset int64
	seq    uint64
	proven uint64    // highest seq known to have been durable
	zxid   jute.Zxid // highest zxid seen after the damage
	cause  error
}

func (d *damage) Error() string { return d.cause.Error() }

// damageAt converts err, found at an offset of a file, to damage of the given kind, unless
// err says otherwise. Data that are unreadable or of a later version are no damage.
func (l *Log) damageAt(kind fault.Kind, path string, off int64, proven uint64, err error) error {
	e := fault.New(kind, path, err)
	if e.Kind == fault.Unreadable || e.Kind == fault.Newer {
		return &fault.Error{Kind: e.Kind, File: path, Cause: fmt.Errorf("at offset %d: %w", off, e.Cause)}
	}
	return &damage{kind: e.Kind, path: path, offset: off, seq: l.seq, proven: proven, cause: e.Cause}
}

// explain converts damage in segment i to the error for the operator.
func (l *Log) explain(err error, firsts []uint64, i int) error {
	d, ok := err.(*damage)
	if !ok {
		return err
	}
	if i+1 < len(firsts) {
		l.blameMissing(d, firsts[i], firsts[i+1])
	}
	e := &CorruptError{
		Kind: d.kind, Segment: d.path, Offset: d.offset, Seq: d.seq, LastSeq: d.proven, LastZxid: d.zxid,
		Cause: d.cause,
	}
	if len(l.mu.segs) > 0 && d.seq >= l.mu.segs[0].first {
		e.LastGood, e.Readable = l.st.last, true
	}
	rest := firsts[i+1:]
	if len(rest) == 0 {
		return e
	}
	e.LastSeq = max(e.LastSeq, rest[len(rest)-1]-1)
	// Check whether the log after the damage is usable by itself.
	probe := newLog(Options{FS: l.o.FS, Dir: l.o.Dir}, l.metrics)
	if tail, err := probe.load(rest); err == nil && len(probe.usableRefs()) > 0 {
		e.LastSeq = max(e.LastSeq, tail.durable)
		e.Covered = &probe.mu.refs[len(probe.mu.refs)-1].SnapRef
		for _, first := range firsts[:i+1] {
			e.Aside = append(e.Aside, filepath.Join(l.o.Dir, segmentName(first)))
		}
	}
	e.LastZxid = max(e.LastZxid, probe.st.last)
	return e
}

// blameMissing turns damage in the segment first into a missing segment if the header of
// the next existing segment names another predecessor: then the records of that file are
// gone.
func (l *Log) blameMissing(d *damage, first, next uint64) {
	path := filepath.Join(l.o.Dir, segmentName(next))
	f, err := l.o.FS.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	if h, err := readHeader(f, next); err == nil && h.prev > first {
		d.kind, d.path, d.offset = fault.Missing, filepath.Join(l.o.Dir, segmentName(h.prev)), 0
		d.cause = fmt.Errorf("%s follows it", filepath.Base(path))
	}
}

// loadClosed reads a segment that is followed by another, up to the record that the header
// of the other one names as its end. All of it was durable.
func (l *Log) loadClosed(w *window, path string, first, last uint64) error {
	f, err := l.o.FS.Open(path)
	if err != nil {
		return fault.New(fault.Unreadable, path, err)
	}
	defer f.Close()
	h, err := l.openSegment(f, path, first, last)
	if err != nil {
		return err
	}
	w.reset(f, h.size)
	return l.loadUpTo(w, last)
}

// openSegment reads the header of the next segment and makes it the last in memory.
func (l *Log) openSegment(f vfs.File, path string, first, proven uint64) (header, error) {
	h, err := readHeader(f, first)
	if err != nil {
		l.seq = max(l.seq, first)
		return h, l.damageAt(fault.Damaged, path, 0, proven, err)
	}
	if len(l.mu.segs) == 0 {
		l.seq, l.crc, l.st = h.first, h.prevCRC, h.state
		l.mu.floor = place{last: h.state.last, seq: h.first, offset: headerSize}
		if h.state.base.Name != "" {
			l.mu.refs = []refAt{{h.state.base, h.state.baseSeq}}
		}
	} else if h.prevCRC != l.crc || h.state.last != l.st.last || h.first != l.seq {
		return h, l.damageAt(fault.Foreign, path, 0, proven, errors.New("it does not continue the segment before it"))
	}
	l.pushLocked(newSegment(path, &h))
	return h, nil
}

// loadUpTo reads the last segment in memory up to and with the record number
// last.
func (l *Log) loadUpTo(w *window, last uint64) error {
	for l.seq <= last {
		seg := l.seg
		at := place{last: l.st.last, seq: l.seq, offset: seg.end}
		f, err := w.expect(at.offset, seg.salt, l.seq, l.crc)
		if err != nil {
			return l.damageAt(fault.Damaged, seg.path, at.offset, last, err)
		}
		if err = l.loadFrame(f, at); err != nil { // its checksum is right
			return l.damageAt(fault.Inconsistent, seg.path, at.offset, last, err)
		}
	}
	return nil
}

// loadFrame applies one record to the log in memory.
func (l *Log) loadFrame(f *frame, at place) error {
	if f.Kind == Append && l.o.CheckEntry != nil {
		if err := l.o.CheckEntry(&f.Record); err != nil {
			return fmt.Errorf("entry %s: %w", f.Zxid, err)
		}
	}
	jump := f.Kind == Truncate || f.Kind == Snapshot
	var cut span
	if jump {
		var err error
		if cut, err = l.cutFor(&f.Record); err != nil {
			return err
		}
	}
	if err := l.apply(&f.Record, f.seq); err != nil {
		return err
	}
	if f.Kind == Forget {
		l.forget(f.Zxid)
	}
	seg := l.seg
	seg.note(at, false)
	seg.end += int64(f.size)
	seg.next = f.seq + 1
	l.mu.stats.SinceSnapRef += int64(f.size)
	if jump {
		at.last = f.Zxid
		l.jumpLocked(&f.Record, l.st.base, at, cut)
	}
	l.seq, l.crc = f.seq+1, f.crc
	return nil
}

// loadLast reads the last segment: it finds the end, decides which kind of end it is, and
// loads the records proven durable.
func (l *Log) loadLast(w *window, path string, first uint64) (tailInfo, error) {
	f, err := l.o.FS.Open(path)
	if err != nil {
		return tailInfo{}, fault.New(fault.Unreadable, path, err)
	}
	defer f.Close()
	h, err := l.openSegment(f, path, first, first-1)
	if err != nil {
		return tailInfo{}, err
	}
	w.reset(f, h.size)
	end, err := findEnd(w, &h, l.crc)
	if err != nil {
		return tailInfo{}, fault.New(fault.Unreadable, path, err)
	}
	if end.bad != nil {
		if err := l.loadUpTo(w, end.seq); err != nil {
			return tailInfo{}, err
		}
		return tailInfo{}, &damage{kind: fault.Damaged, path: path, offset: end.offset, seq: end.seq + 1,
			proven: end.provenDurable, zxid: end.zxidAfter, cause: end.bad}
	}
	if noResync.Planted() {
		end.durable = end.seq
	}
	if err := l.loadUpTo(w, end.durable); err != nil {
		return tailInfo{}, err
	}
	// Check that the rest is sound, too, but leave it for restart to copy.
	proven := l.mark()
	if err := l.loadUpTo(w, end.seq); err != nil {
		return tailInfo{}, err
	}
	if err := l.checkBeginning(); err != nil {
		return tailInfo{}, err
	}
	if err := l.check(); err != nil {
		return tailInfo{}, err
	}
	tail := tailInfo{durable: end.durable, bytes: end.offset - proven.seg.end}
	if end.dirty {
		tail.torn = &TornTail{Segment: path, Offset: end.offset, Seq: end.seq + 1, After: l.st.last}
	}
	l.restore(proven)
	return tail, nil
}
