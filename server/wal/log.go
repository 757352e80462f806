package wal

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

const (
	// maxReserve is the room at the tail of a segment for control records.
	maxReserve = 64 << 10
	// flushSize is how many bytes are collected for one write.
	flushSize = 4 << 20
)

// Log is an open log. See the package comment for its goroutines.
type Log struct {
	o       Options
	metrics metrics
	epoch   time.Time // of the durations in busySince; in the past, so none is 0

	// Used by the owner only, which appends. Invariant: durable <= written < seq.
	f       vfs.File              // of the last segment
	dir     vfs.Dir               // the directory of the segments, once Open has ended
	seg     *segment              // the last one; changed with mu held, so the owner may read it without mu
	st      state                 // after the last record in buf, or the last one written if buf is empty
	buf     []byte                // encoded, not yet written
	seq     uint64                // of the next record
	crc     uint32                // of the last record
	written uint64                // seq of the last record written
	durable uint64                // seq of the last record synced
	pending []place               // index entries for the records in buf
	syncs   int64                 // since the segment was begun
	failed  error                 // the first failure; nothing works after it
	lacks   atomic.Pointer[error] // why no segment can be begun; nil if the log does not wait
	control *control              // only while Open runs

	synced    atomic.Uint64 // durable, for other goroutines
	busySince atomic.Int64  // when the Append began whose Sync has not returned, as a time since epoch; 0: none
	spare     spare
	purge     struct {
		sync.Mutex
		err error // the first failure; nothing is deleted after it
	}

	mu struct {
		sync.Mutex
		segs  []*segment // in order; the last one is being written
		floor place      // the oldest place that Replay can begin at
		dead  []span     // records that truncations took out of the history, in order
		refs  []refAt    // retained, oldest first
		jumps uint64     // truncations and installed snapshots so far
		stats Stats
		kept  int64 // see Keep
		since int64 // stats.Bytes at that time
		// syncBytes is what a sync had of the segment before the last one; 0: not known.
		syncBytes int64

		fsyncWarn time.Duration // Options.FsyncWarn, or what SetFsyncWarn has set
	}
}

// span is the records from (inclusive) to (exclusive).
type span struct{ from, to uint64 }

// refAt is a snapshot reference and the number of its record.
type refAt struct {
	SnapRef
	seq uint64
}

// NextSeq returns the number of the next record. Owner only.
func (l *Log) NextSeq() uint64 { return l.seq }

// LastZxid returns the zxid of the last entry appended. Owner only.
func (l *Log) LastZxid() jute.Zxid { return l.st.last }

// Append writes records after the last one. They are not durable before Sync returns. After
// an error other than ErrWaits the state of the batch is unknown, and the log can't be used any
// more. Append does not retain batch. Owner only.
func (l *Log) Append(batch []Record) error {
	if l.failed != nil {
		return l.failed
	}
	l.busySince.CompareAndSwap(0, int64(time.Since(l.epoch)))
	before := l.seq
	for i := range batch {
		switch err := l.add(batch[i]); {
		case errors.Is(err, ErrWaits):
			return l.wait(err)
		case err != nil:
			return l.fail(err)
		}
	}
	if err := l.flush(); err != nil {
		return l.fail(err)
	}
	l.lacks.Store(nil)
	l.metrics.batch.Observe(float64(l.seq - before))
	return nil
}

// Sync makes everything appended durable and returns the number of the last record. With
// Options.NoSync it treats written records as durable. Owner only.
func (l *Log) Sync() (uint64, error) {
	if l.failed != nil {
		return 0, l.failed
	}
	if err := l.syncSegment(); err != nil {
		return 0, l.fail(err)
	}
	l.busySince.Store(0)
	return l.durable, nil
}

// wait makes err what the log waits for the end of.
func (l *Log) wait(err error) error {
	l.lacks.Store(&err)
	return err
}

// fail makes err the final error of the log: after a failed write or fsync the contents of
// the disk are unknown, and a second fsync may report success regardless.
func (l *Log) fail(err error) error {
	l.failed = fmt.Errorf("log failed: %w", err)
	l.lacks.Store(nil)
	return l.failed
}

// add checks one record and encodes it into the buffer.
func (l *Log) add(r Record) error {
	if r.Kind != Append {
		r.Prev, r.Type = l.st.last, 0
	}
	if len(r.Payload) > MaxPayload {
		return tooLarge(&r)
	}
	size := frameSize(len(r.Payload))
	if !l.fits(size, r.Kind) {
		if err := l.roll(size, r.Kind); err != nil {
			return err
		}
	}
	if r.Kind == Truncate || r.Kind == Snapshot {
		return l.addJump(r)
	}
	l.indexNext()
	if err := l.apply(&r, l.seq); err != nil {
		return err
	}
	if r.Kind == Forget {
		l.forget(r.Zxid)
	}
	l.encode(&r)
	if len(l.buf) >= flushSize {
		return l.flush()
	}
	return nil
}

// forget drops the references before oldest from memory.
func (l *Log) forget(oldest jute.Zxid) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.refs = slices.DeleteFunc(slices.Clone(l.mu.refs), func(r refAt) bool { return r.Zxid < oldest })
}

// addJump adds a record that changes which records form the history.
func (l *Log) addJump(r Record) error {
	if err := l.flush(); err != nil {
		return err
	}
	cut, err := l.cutFor(&r)
	if err != nil {
		return err
	}
	at := place{last: r.Zxid, seq: l.seq, offset: l.seg.end}
	if err := l.apply(&r, l.seq); err != nil {
		return err
	}
	l.encode(&r)
	if err := l.flush(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jumpLocked(&r, l.st.base, at, cut)
	return nil
}

// apply updates the state for a record.
func (l *Log) apply(r *Record, seq uint64) error {
	if err := l.st.apply(r, seq); err != nil {
		return err
	}
	if l.control != nil {
		l.control.apply(r, l.st.base.Installed)
	}
	return nil
}

// encode appends the frame of r, which the state has accepted, to the buffer.
func (l *Log) encode(r *Record) {
	f := frame{Record: *r, seq: l.seq, durable: l.durable, prevCRC: l.crc}
	l.buf, l.crc = appendFrame(l.buf, l.seg.salt, &f)
	l.seq++
}

// indexNext collects an index entry for the next record when one is due.
func (l *Log) indexNext() {
	seg := l.seg
	at := seg.end + int64(len(l.buf))
	before := seg.index[len(seg.index)-1].offset
	if n := len(l.pending); n > 0 {
		before = l.pending[n-1].offset
	}
	if at-before >= indexStep {
		l.pending = append(l.pending, place{last: l.st.last, seq: l.seq, offset: at})
	}
}

// reserve returns the room at the tail of a segment that is reserved for control records: a
// full disk must not prevent a promise.
func reserve(size int64) int64 { return min(maxReserve, size/8) &^ (align - 1) }

// limitFor returns up to where records of a kind may go in a segment. The last quarter of the reserve is for records that
// make room: a full disk must not prevent a purge.
func limitFor(segment int64, kind Kind) int64 {
	reserved := reserve(segment)
	if reserveTaken.Planted() {
		reserved = 0
	}
	switch kind {
	case Append:
		return segment - reserved
	case Snapshot, Forget:
		return segment
	}
	return segment - reserved/4
}

// fits reports whether a record of the given size still fits into the segment.
func (l *Log) fits(size int, kind Kind) bool {
	return l.seg.end+int64(len(l.buf))+int64(size) <= limitFor(l.seg.size, kind)
}

// addAhead makes a record durable that makes room. While another one waits for the next segment, it reports whether
// the present one has room for it.
func (l *Log) addAhead(r Record, waiting bool) (bool, error) {
	if !waiting {
		err := l.Append([]Record{r})
		if err == nil {
			_, err = l.Sync()
		}
		return true, err
	}
	if !l.fits(frameSize(len(r.Payload)), r.Kind) {
		return false, nil
	}
	err := l.add(r)
	if err == nil {
		err = l.flush()
	}
	if err == nil {
		err = l.syncSegment()
	}
	if err != nil {
		return false, l.fail(err)
	}
	return true, nil
}

// flush writes the buffer in one write.
func (l *Log) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	seg := l.seg
	if _, err := l.f.WriteAt(l.buf, seg.end); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	n := int64(len(l.buf))
	l.metrics.bytes.Add(float64(n))
	l.mu.Lock()
	s := &l.mu.stats
	s.Records += l.seq - seg.next
	s.Bytes += n
	s.SinceSnapRef += n
	seg.end += n
	seg.next = l.seq
	seg.index = append(seg.index, l.pending...)
	l.mu.Unlock()
	l.written = l.seq - 1
	l.pending = l.pending[:0]
	l.buf = l.buf[:0]
	if cap(l.buf) > 2*flushSize {
		l.buf = nil // release the memory after one huge record
	}
	return nil
}

// syncSegment makes the written records durable.
func (l *Log) syncSegment() error {
	if l.durable == l.written {
		return nil
	}
	if !l.o.NoSync {
		if err := l.timeSync(l.f.SyncData); err != nil {
			return fmt.Errorf("sync log: %w", err)
		}
	}
	l.syncs++
	l.setDurable(l.written)
	return nil
}

func (l *Log) setDurable(seq uint64) {
	l.durable = seq
	l.synced.Store(seq)
}

// jumpLocked records a truncation or a snapshot reference at a place: cut is the records
// that it takes out of the history.
func (l *Log) jumpLocked(r *Record, base SnapRef, at place, cut span) {
	if r.Kind == Snapshot {
		if l.st.baseSeq != at.seq {
			return // it came too late to count
		}
		if base.Installed {
			l.mu.refs, l.mu.floor = nil, at
		}
		l.mu.refs = append(l.mu.refs, refAt{base, at.seq})
		l.mu.stats.SinceSnapRef = 0
		if !base.Installed {
			return
		}
	}
	if at.last < l.mu.floor.last {
		l.mu.floor = at
	}
	l.mu.jumps++
	l.seg.note(at, true)
	if cut.from < cut.to {
		l.mu.dead = addSpan(l.mu.dead, cut)
	}
}

// addSpan adds a span that ends after all others and absorbs those that begin within it.
func addSpan(dead []span, s span) []span {
	for len(dead) > 0 && dead[len(dead)-1].from >= s.from {
		dead = dead[:len(dead)-1]
	}
	if n := len(dead); n > 0 && dead[n-1].to >= s.from {
		s.from = dead[n-1].from
		dead = dead[:n-1]
	}
	return append(slices.Clip(dead), s) // readers may hold the old slice
}

// SetFsyncWarn sets Options.FsyncWarn. Any goroutine may call it.
func (l *Log) SetFsyncWarn(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.fsyncWarn = d
}

// warnSlow logs an fsync that took too long, in ZooKeeper's words.
func (l *Log) warnSlow(took, threshold time.Duration) {
	l.o.Logger.Warn("fsync-ing the write ahead log took longer than the threshold; this adversely affects operation latency",
		zap.Duration("took", took), zap.Duration("threshold", threshold))
}

// Close closes the files without making anything durable. Owner only.
func (l *Log) Close() error {
	if errors.Is(l.failed, ErrClosed) {
		return nil
	}
	failed := l.failed
	l.failed = ErrClosed
	l.spare.discard()
	err := errors.Join(l.f.Close(), l.dir.Close())
	if failed != nil {
		return nil // the owner knows it already
	}
	if err != nil {
		return fmt.Errorf("close log: %w", err)
	}
	return nil
}
