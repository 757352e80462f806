package wal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// Recovered is what Open found.
type Recovered struct {
	New        bool      // there was no log
	Ident      []byte    // the log's identity
	Promise    []byte    // payload of the newest promise, nil if there is none
	LastZxid   jute.Zxid // of the last entry
	CommitHint jute.Zxid // some zxid known to be committed
	FirstZxid  jute.Zxid // the oldest one that Replay can begin behind
	// Snaps are the snapshot references that the log's entries reach to, oldest
	// first. Their files may be gone or damaged, which is for the caller to see.
	Snaps []SnapRef
	// Control are the entries of the history whose type is not 0, in order, as
	// far as the log reaches back: also those that a snapshot covers. The
	// payloads are the caller's.
	Control []Record
	// LogBytes is what the log holds from FirstZxid on, in bytes of records.
	LogBytes int64
	// Torn is set if the end of the log was cut off: the mark of a crash during
	// a write. What was cut had never been made durable.
	Torn *TornTail
	// Damaged is set if Options.SetAside had a damaged log set aside: what was in
	// it is not recovered, but for the promise. The log is empty and has the
	// identity of Options.SetAsideIdent. Only the Open that sets aside tells.
	Damaged *CorruptError
	// Lost is set if AcceptLossAfter made Open give up damaged records.
	Lost *CorruptError
}

// TornTail is an end of the log that a crash left incomplete.
type TornTail struct {
	Segment string
	Offset  int64  // where the records that count end
	Seq     uint64 // of the first record that was cut
	After   jute.Zxid
}

// tailInfo is what the last segment's records prove.
type tailInfo struct {
	durable uint64 // number of the last record proven durable
	bytes   int64  // of the records behind that one
	torn    *TornTail
}

// Open reads the log in o.Dir, tells a torn end from corruption, makes what
// survives durable again, and leaves the log ready for records. The caller holds
// the lock on the directory.
//
// It returns a *CorruptError if bytes that had been durable are damaged; then,
// and with any other error before, nothing was changed. With Options.SetAside it
// has the damaged log set aside instead. It is idempotent: a crash within it
// leads to the same result at the next call.
func Open(o Options) (*Log, *Recovered, error) {
	if err := o.setDefaults(); err != nil {
		return nil, nil, err
	}
	if o.NoSync {
		o.Logger.Warn("the log is not synced (forceSync=no): a power failure loses acknowledged writes")
	}
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, nil, fmt.Errorf("open log: %w", err)
	}
	m := newMetrics(o.Registerer)
	l, rec, err := open(o, m)
	var corrupt *CorruptError
	if errors.As(err, &corrupt) && o.SetAside && o.AcceptLossAfter == nil {
		l, rec, err = openAside(o, m, corrupt)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open log: %w", err)
	}
	return l, rec, nil
}

// open is Open without setting anything aside.
func open(o Options, m metrics) (*Log, *Recovered, error) {
	firsts, leftovers, err := listSegments(o.FS, o.Dir)
	if err != nil {
		return nil, nil, err
	}
	if aside := filepath.Join(o.Dir, asideName); slices.Contains(leftovers, aside) {
		return nil, nil, &CorruptError{Segment: aside, Seq: 1, Cause: errInterrupted}
	}
	l := newLog(o, m)
	rec := &Recovered{New: len(firsts) == 0}
	tail, err := l.load(firsts)
	var corrupt *CorruptError
	if errors.As(err, &corrupt) && o.AcceptLossAfter != nil {
		tail, err = l.acceptLoss(corrupt, firsts)
		rec.Lost = corrupt
	}
	if err != nil {
		return nil, nil, err
	}
	rec.Torn = tail.torn
	if err := l.restart(tail, leftovers); err != nil {
		l.closeQuietly()
		return nil, nil, err
	}
	l.describe(rec)
	return l, rec, nil
}

func newLog(o Options, m metrics) *Log {
	l := &Log{o: o, metrics: m, epoch: time.Now().Add(-time.Nanosecond), seq: 1}
	l.st.ident = append([]byte(nil), o.Ident...)
	l.control = &control{}
	return l
}

func (l *Log) closeQuietly() {
	if l.f != nil {
		_ = l.f.Close() // the error that led here is the one to report
	}
}

// describe fills in what recovery found.
func (l *Log) describe(rec *Recovered) {
	l.mu.refs = l.usableRefs()
	rec.Ident, rec.Promise = l.st.ident, l.st.promise
	rec.LastZxid, rec.CommitHint = l.st.last, l.st.hint
	rec.FirstZxid = l.mu.floor.last
	rec.Control, l.control = l.control.entries, nil
	rec.LogBytes, _ = l.BytesBehind(rec.FirstZxid)
	for _, r := range l.mu.refs {
		rec.Snaps = append(rec.Snaps, r.SnapRef)
	}
	if t := rec.Torn; t != nil {
		l.o.Logger.Warn("cut the incomplete end of the log, which had never been acknowledged",
			zap.String("segment", t.Segment), zap.Int64("offset", t.Offset), zap.Stringer("zxid", t.After))
	}
	if c := rec.Lost; c != nil {
		l.o.Logger.Error("gave up damaged records, as ordered", zap.Error(c))
	}
	s := &l.mu.stats
	*s = Stats{SinceSnapRef: s.SinceSnapRef}
}

// load reads and checks the segments. What it leaves in memory ends at the last
// record proven durable. It changes nothing on disk.
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

// checkBeginning finds segments missing in front: a history that does not begin
// at the beginning needs a snapshot to stand on.
func (l *Log) checkBeginning() error {
	if len(l.mu.segs) == 0 || len(l.usableRefs()) > 0 {
		return nil
	}
	if seg := l.mu.segs[0]; seg.first > 1 {
		return &damage{path: seg.path, seq: 1, proven: seg.first - 1, zxid: l.mu.floor.last,
			cause: errors.New("earlier segments are missing, and no snapshot is recorded that makes up for them")}
	}
	return nil
}

// usableRefs returns the references whose entries are not purged.
func (l *Log) usableRefs() []refAt {
	return slices.DeleteFunc(slices.Clone(l.mu.refs), func(r refAt) bool { return r.Zxid < l.mu.floor.last })
}

// mark is what loading records changes.
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

func (l *Log) goBack(m mark) {
	l.seq, l.crc, l.st, *l.seg = m.seq, m.crc, m.st, m.seg
	l.mu.refs, l.mu.dead, l.mu.floor, l.mu.stats.SinceSnapRef = m.refs, m.dead, m.floor, m.sinceSnapRef
	l.control.entries = m.control
}

// damage is a place where something durable does not read. load turns it into
// a CorruptError.
type damage struct {
	path   string
	offset int64
	seq    uint64
	proven uint64    // highest seq known to have been durable
	zxid   jute.Zxid // highest one seen behind the damage
	cause  error
}

func (d *damage) Error() string { return d.cause.Error() }

// asDamage wraps errors that mean bad bytes; others are passed on.
func (l *Log) asDamage(path string, off int64, proven uint64, err error) error {
	if errors.Is(err, errInvalid) || errors.Is(err, errOutOfPlace) ||
		errors.Is(err, ErrDiscontinuous) || errors.Is(err, ErrTooLarge) {
		return &damage{path: path, offset: off, seq: l.seq, proven: proven, cause: err}
	}
	return fmt.Errorf("%s at offset %d: %w", path, off, err)
}

// explain turns damage in the segment i into the error for the operator.
func (l *Log) explain(err error, firsts []uint64, i int) error {
	d, ok := err.(*damage)
	if !ok {
		return err
	}
	e := &CorruptError{
		Segment: d.path, Offset: d.offset, Seq: d.seq, LastSeq: d.proven, LastZxid: d.zxid,
		Cause: d.cause,
	}
	if len(l.mu.segs) > 0 && d.seq >= l.mu.segs[0].first {
		e.Good, e.Readable = l.st.last, true
	}
	rest := firsts[i+1:]
	if len(rest) == 0 {
		return e
	}
	e.LastSeq = max(e.LastSeq, rest[len(rest)-1]-1)
	// Would the log behind the damage stand on its own?
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

// loadClosed reads a segment that another one follows, up to the record that the
// other one names as its end. All of it was durable.
func (l *Log) loadClosed(w *window, path string, first, last uint64) error {
	f, err := l.o.FS.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h, err := l.enter(f, path, first, last)
	if err != nil {
		return err
	}
	w.reset(f, h.size)
	return l.loadUpTo(w, last)
}

// enter reads the header of the next segment and makes it the last in memory.
func (l *Log) enter(f vfs.File, path string, first, proven uint64) (header, error) {
	h, err := readHeader(f, first)
	if err != nil {
		l.seq = max(l.seq, first)
		return h, l.asDamage(path, 0, proven, err)
	}
	if len(l.mu.segs) == 0 {
		l.seq, l.crc, l.st = h.first, h.prevCRC, h.state
		l.mu.floor = place{last: h.state.last, seq: h.first, offset: headerSize}
		if h.state.base.Name != "" {
			l.mu.refs = []refAt{{h.state.base, h.state.baseSeq}}
		}
	} else if h.prevCRC != l.crc || h.state.last != l.st.last || h.first != l.seq {
		return h, l.asDamage(path, 0, proven, errOutOfPlace)
	}
	l.pushLocked(newSegment(path, &h))
	return h, nil
}

// loadUpTo reads the last segment in memory up to and with the record number
// last.
func (l *Log) loadUpTo(w *window, last uint64) error {
	var f frame
	for l.seq <= last {
		seg := l.seg
		at := place{last: l.st.last, seq: l.seq, offset: seg.end}
		var err error
		if f, err = w.expect(at.offset, seg.salt, l.seq, l.crc); err == nil {
			err = l.loadFrame(&f, at)
		}
		if err != nil {
			return l.asDamage(seg.path, at.offset, last, err)
		}
	}
	return nil
}

// loadFrame moves the log in memory over one record.
func (l *Log) loadFrame(f *frame, at place) error {
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

// loadLast reads the last segment: it finds the end, decides what kind of end it
// is, and loads the records proven durable.
func (l *Log) loadLast(w *window, path string, first uint64) (tailInfo, error) {
	f, err := l.o.FS.Open(path)
	if err != nil {
		return tailInfo{}, err
	}
	defer f.Close()
	h, err := l.enter(f, path, first, first-1)
	if err != nil {
		return tailInfo{}, err
	}
	w.reset(f, h.size)
	end, err := findEnd(w, &h, l.crc)
	if err != nil {
		return tailInfo{}, fmt.Errorf("%s: %w", path, err)
	}
	if end.bad != nil {
		if err := l.loadUpTo(w, end.seq); err != nil {
			return tailInfo{}, err
		}
		return tailInfo{}, &damage{path: path, offset: end.offset, seq: end.seq + 1,
			proven: end.provenBehind, zxid: end.zxidBehind, cause: end.bad}
	}
	if err := l.loadUpTo(w, end.durable); err != nil {
		return tailInfo{}, err
	}
	// See that the rest is sound, too, but leave it for restart to copy.
	proven := l.mark()
	if err := l.loadUpTo(w, end.seq); err != nil {
		return tailInfo{}, err
	}
	if err := l.checkBeginning(); err != nil {
		return tailInfo{}, err
	}
	tail := tailInfo{durable: end.durable, bytes: end.offset - proven.seg.end}
	if end.dirty {
		tail.torn = &TornTail{Segment: path, Offset: end.offset, Seq: end.seq + 1, After: l.st.last}
	}
	l.goBack(proven)
	return tail, nil
}

// restart makes the surviving records durable again and the log ready to be
// written: it copies what is not proven durable into a fresh segment, whose
// header names the last proven record as the end of what precedes. The file gets
// its name only when all of that is synced, so a crash leaves the old end or
// the new one. What was read may never have reached the disk: the process may
// have died before its fsync, or an fsync may have failed.
func (l *Log) restart(tail tailInfo, leftovers []string) error {
	for _, name := range leftovers {
		if err := l.o.FS.Remove(name); err != nil {
			return fmt.Errorf("remove leftover: %w", err)
		}
	}
	l.setDurable(l.seq - 1)
	l.written = l.durable
	f, size, tmp, err := l.makeSegment(segmentFor(tail.bytes))
	if err != nil {
		return err
	}
	l.f = f
	var old segment
	if len(l.mu.segs) > 0 {
		old = *l.seg
	}
	h := header{first: l.seq, size: size, prevCRC: l.crc, state: l.st}
	if err := l.writeHeader(&h); err != nil {
		return err
	}
	l.adopt(tmp, &h)
	if err := l.copyTail(&old, tail); err != nil {
		return err
	}
	path := filepath.Join(l.o.Dir, segmentName(h.first))
	if err := l.publish(tmp, path); err != nil {
		return err
	}
	l.seg.path = path
	l.setDurable(l.written)
	return nil
}

// copyTail appends the records of the old last segment that are not proven
// durable, with the numbers that they had.
func (l *Log) copyTail(old *segment, tail tailInfo) error {
	if tail.bytes == 0 {
		return nil
	}
	f, err := l.o.FS.Open(old.path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := &window{f: f, limit: old.end + tail.bytes}
	for off := old.end; off < w.limit; {
		r, err := w.frame(off, old.salt)
		if err != nil {
			return fmt.Errorf("copy record %d: %w", l.seq, err)
		}
		if err := l.add(r.Record); err != nil {
			return fmt.Errorf("copy record %d: %w", r.seq, err)
		}
		off += int64(r.size)
	}
	return l.flush()
}

// acceptLoss gives up the records from the damage on, if the operator named the
// right place: the files behind it are set aside, newest first, and the segment
// that restart writes disowns the rest.
func (l *Log) acceptLoss(c *CorruptError, firsts []uint64) (tailInfo, error) {
	if want := *l.o.AcceptLossAfter; want != c.Good || !c.Readable {
		return tailInfo{}, fmt.Errorf("accept data loss after %s: not where the damage is: %w", want, c)
	}
	for i := len(firsts) - 1; i >= 0 && firsts[i] >= c.Seq; i-- {
		path := filepath.Join(l.o.Dir, segmentName(firsts[i]))
		name, err := freeName(l.o.FS, path)
		if err == nil {
			err = l.o.FS.Rename(path, name)
		}
		if err != nil {
			return tailInfo{}, fmt.Errorf("set aside damaged segment: %w", err)
		}
		if n := len(l.mu.segs); n > 1 && l.mu.segs[n-1].first == firsts[i] {
			l.mu.segs, l.seg = l.mu.segs[:n-1], l.mu.segs[n-2]
		}
	}
	if err := l.syncDir(); err != nil {
		return tailInfo{}, err
	}
	return tailInfo{durable: l.seq - 1}, l.checkBeginning()
}
