package wal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/jute"
)

// Recovered is the result of Open.
type Recovered struct {
	New        bool      // there was no log
	Ident      []byte    // the log's identity
	Promise    []byte    // payload of the newest promise, nil if there is none
	Notes      []byte    // payload of the newest notes, nil if there are none
	LastZxid   jute.Zxid // of the last entry
	CommitHint jute.Zxid // some zxid known to be committed
	FirstZxid  jute.Zxid // the oldest zxid that Replay can begin after
	// Snaps are the snapshot references that the log's entries reach to, oldest first. Their
	// files may be gone or damaged; the caller has to check.
	Snaps []SnapRef
	// Control are the entries of the history whose type is not 0, in order, as far as the log
	// reaches back: also those that a snapshot covers. The caller owns the payloads.
	Control []Record
	// LogBytes is the size of the records from FirstZxid on.
	LogBytes int64
	// Torn is set if the end of the log was cut off: a crash interrupted a write. The records cut
	// had never been made durable.
	Torn *TornTail
	// Damaged is set if Options.SetAside or Options.Order set the log aside: only its promise is
	// recovered. The log is empty and has the identity of Options.SetAsideIdent. Only the Open
	// that sets the log aside sets it.
	Damaged *CorruptError
	// Lost is set if AcceptLossAfter made Open give up damaged records.
	Lost *CorruptError
}

// TornTail is the end of a log that a crash left incomplete.
type TornTail struct {
	Segment string
	Offset  int64  // where the records that count end
	Seq     uint64 // of the first record that was cut
	After   jute.Zxid
}

// Open reads the log in o.Dir, distinguishes a torn end from corruption, makes the
// surviving records durable again, and leaves the log ready for records. The caller holds
// the lock on the directory.
//
// It returns a *CorruptError if a part of the log that had been durable can't be used, and
// a *fault.Error if a file can't be read or is of a later version; then it has changed
// nothing. With Options.SetAside it sets a log with damaged bytes aside instead. Open is
// idempotent: a crash within it leads to the same result at the next call.
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
	var l *Log
	var rec *Recovered
	var err error
	if o.Order != nil {
		l, rec, err = openOrdered(o, m)
	} else {
		l, rec, err = open(o, m)
	}
	var corrupt *CorruptError
	if errors.As(err, &corrupt) && corrupt.Kind == fault.Damaged && o.SetAside && o.AcceptLossAfter == nil {
		l, rec, err = openAside(o, m, corrupt)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open log: %w", err)
	}
	return l, rec, nil
}

// openOrdered sets the log aside as Options.Order says, if there is one.
func openOrdered(o Options, m metrics) (*Log, *Recovered, error) {
	corrupt := &CorruptError{Kind: fault.Damaged, Segment: o.Dir, Seq: 1, Cause: o.Order}
	firsts, leftovers, err := listSegments(o.FS, o.Dir)
	switch {
	case err != nil:
		return nil, nil, err
	case slices.Contains(leftovers, filepath.Join(o.Dir, asideName)):
		corrupt.Cause = errInterrupted
	case len(firsts) == 0:
		return open(o, m)
	}
	return openAside(o, m, corrupt)
}

// open is like Open, but sets nothing aside.
func open(o Options, m metrics) (*Log, *Recovered, error) {
	firsts, leftovers, err := segmentsIn(o)
	if err != nil {
		return nil, nil, err
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
	if l.dir, err = o.FS.OpenDir(o.Dir); err != nil {
		l.closeQuietly()
		return nil, nil, err
	}
	l.describe(rec)
	return l, rec, nil
}

// segmentsIn lists the segments of the log, and unfinished files beside them.
func segmentsIn(o Options) (firsts []uint64, leftovers []string, err error) {
	firsts, leftovers, err = listSegments(o.FS, o.Dir)
	if err != nil {
		return nil, nil, err
	}
	if aside := filepath.Join(o.Dir, asideName); slices.Contains(leftovers, aside) {
		return nil, nil, &CorruptError{Kind: fault.Damaged, Segment: aside, Seq: 1, Cause: errInterrupted}
	}
	return firsts, leftovers, nil
}

func newLog(o Options, m metrics) *Log {
	l := &Log{o: o, metrics: m, epoch: time.Now().Add(-time.Nanosecond), seq: 1}
	l.mu.fsyncWarn = o.FsyncWarn
	l.st.ident = append([]byte(nil), o.Ident...)
	l.control = &control{}
	return l
}

func (l *Log) closeQuietly() {
	if l.f != nil {
		_ = l.f.Close() // the error that led here is reported
	}
}

// describe fills in the results of recovery.
func (l *Log) describe(rec *Recovered) {
	l.mu.refs = l.usableRefs()
	l.summarize(rec)
	l.control = nil
	rec.LogBytes, _ = l.BytesAfter(rec.FirstZxid)
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

// summarize fills in the results of the records read so far.
func (l *Log) summarize(rec *Recovered) {
	rec.Ident, rec.Promise, rec.Notes = l.st.ident, l.st.promise, l.st.notes
	rec.LastZxid, rec.CommitHint = l.st.last, l.st.hint
	rec.FirstZxid = l.mu.floor.last
	rec.Control = l.control.entries
	for _, r := range l.usableRefs() {
		rec.Snaps = append(rec.Snaps, r.SnapRef)
	}
}

// restart makes the surviving records durable again and the log ready to be written. It
// copies the records not proven durable into a fresh segment, whose header names the last
// proven record as the end of what precedes. The file gets its name only when all of it is
// synced, so a crash leaves the old end or the new one. Records that were read may never
// have reached the disk: the process may have died before its fsync, or an fsync may have
// failed.
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
	h := l.nextHeader(size)
	if err := l.writeHeader(f, &h); err != nil {
		return err
	}
	l.adopt(tmp, &h)
	if err := l.copyTail(&old, tail); err != nil {
		return err
	}
	path := filepath.Join(l.o.Dir, segmentName(h.first))
	if err := l.publish(f, tmp, path); err != nil {
		return err
	}
	l.seg.path = path
	l.setDurable(l.written)
	return nil
}

// copyTail appends the records of the old last segment that are not proven durable, with
// their old numbers.
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

// acceptLoss gives up the records from the damage on, if the operator named the right
// place: the later files are set aside, newest first, and the segment that restart writes
// disowns the rest.
func (l *Log) acceptLoss(c *CorruptError, firsts []uint64) (tailInfo, error) {
	if want := *l.o.AcceptLossAfter; want != c.LastGood || !c.Readable {
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
	return tailInfo{}, l.checkBeginning()
}
