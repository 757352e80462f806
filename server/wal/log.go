package wal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// Options says where the log is and how it is written. Zero values are the
// defaults but for Dir.
type Options struct {
	FS  vfs.FS // default: the operating system's
	Dir string // of the segments; made if need be

	// SegmentSize is the size of a full-grown segment, in bytes; default 64
	// MiB, at least 16 KiB. ZooKeeper's preAllocSize.
	SegmentSize int64
	// Ident is an opaque identity, at most MaxIdent bytes, that a new log is
	// given. An existing log keeps its own; Open returns it.
	Ident []byte
	// NoSync skips every fsync: a power cut then loses or damages the log.
	// ZooKeeper's forceSync=no.
	NoSync bool
	// FsyncWarn is how long an fsync may take before it is logged and counted
	// as slow; default 1 s. ZooKeeper's fsync.warningthresholdms.
	FsyncWarn time.Duration
	// AcceptLossAfter lets Open give up what is behind a damage. It must be the
	// Good field of the CorruptError that Open returns without it.
	AcceptLossAfter *jute.Zxid

	// SetAside makes Open put an empty log in the place of a damaged one instead
	// of failing: see Recovered.Damaged. For a server of an ensemble, which the
	// others can repair.
	SetAside bool
	// SetAsideIdent is the identity of the log that takes the place of a damaged
	// one; default: Ident.
	SetAsideIdent []byte

	Logger     *zap.Logger           // default: none
	Registerer prometheus.Registerer // default: metrics are kept but not registered
}

const (
	minSegmentSize = 16 << 10
	// startSize is the size of a segment that could not take the prepared one:
	// zeroing so much costs a few milliseconds.
	startSize = 1 << 20
	// growth is the ratio of the sizes of a spare and the segment before it.
	growth = 4
	// maxReserve is the room at the tail of a segment for control records.
	maxReserve = 64 << 10
	// flushSize is how many bytes are gathered for one write.
	flushSize = 4 << 20
)

func (o *Options) setDefaults() error {
	if o.Dir == "" {
		return errors.New("wal: no directory")
	}
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = 64 << 20
	}
	o.SegmentSize = max(o.SegmentSize, minSegmentSize) &^ (align - 1)
	if o.FsyncWarn == 0 {
		o.FsyncWarn = time.Second
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.SetAsideIdent == nil {
		o.SetAsideIdent = o.Ident
	}
	if n := max(len(o.Ident), len(o.SetAsideIdent)); n > MaxIdent {
		return fmt.Errorf("wal: identity of %d bytes: %w", n, ErrTooLarge)
	}
	return nil
}

// Log is an open log. See the package comment for who may call what.
type Log struct {
	o       Options
	metrics metrics
	epoch   time.Time // of the durations in busySince; in the past, so none is 0

	// Of the owner, who appends. Invariant: durable <= written < seq.
	f       vfs.File // of the last segment
	seg     *segment // the last one; changed with mu held, so the owner may read it without
	st      state    // as of the last record in buf, or else written
	buf     []byte   // encoded, not yet written
	seq     uint64   // of the next record
	crc     uint32   // of the last record
	written uint64   // seq of the last record written
	durable uint64   // seq of the last record synced
	pending []place  // index entries for the records in buf
	failed  error    // the first failure; nothing works after it
	control *control // only while Open runs

	synced    atomic.Uint64 // durable, for the others
	busySince atomic.Int64  // of the oldest write that no fsync has come back for, as a time since epoch; 0: none
	spare     spare
	purge     struct {
		sync.Mutex
		err error // the first failure; nothing is deleted after it
	}

	mu struct {
		sync.Mutex
		segs  []*segment // in order; the last one is being written
		floor place      // the oldest point that Replay can begin at
		dead  []span     // records that truncations took out of the history, in order
		refs  []refAt    // retained, oldest first
		jumps uint64     // truncations and installed snapshots so far
		stats Stats
	}
}

// span is the records from (inclusive) to (exclusive).
type span struct{ from, to uint64 }

// refAt is a snapshot reference and the number of its record.
type refAt struct {
	SnapRef
	seq uint64
}

// NextSeq returns the number that the next record will get. Owner only.
func (l *Log) NextSeq() uint64 { return l.seq }

// LastZxid returns the zxid of the last entry appended. Owner only.
func (l *Log) LastZxid() jute.Zxid { return l.st.last }

// Append writes records behind the last one. They are not durable before Sync
// returns. After an error nothing is known of the batch, and the log is of no
// more use. Owner only; it does not retain batch.
func (l *Log) Append(batch []Record) error {
	if l.failed != nil {
		return l.failed
	}
	before := l.seq
	for i := range batch {
		if err := l.add(batch[i]); err != nil {
			return l.fail(err)
		}
	}
	if err := l.flush(); err != nil {
		return l.fail(err)
	}
	l.metrics.batch.Observe(float64(l.seq - before))
	return nil
}

// Sync makes all that was appended durable and returns the number of the last
// record. Owner only.
func (l *Log) Sync() (uint64, error) {
	if l.failed != nil {
		return 0, l.failed
	}
	if err := l.syncSegment(); err != nil {
		return 0, l.fail(err)
	}
	return l.durable, nil
}

// fail makes err the end of the log: after a failed write or fsync nobody
// knows what is on disk, and a second fsync may report success regardless.
func (l *Log) fail(err error) error {
	l.failed = fmt.Errorf("log failed: %w", err)
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
		if err := l.roll(size); err != nil {
			return err
		}
	}
	if r.Kind == Truncate || r.Kind == Snapshot {
		return l.addJump(r)
	}
	l.noteBefore()
	if err := l.apply(&r, l.seq); err != nil {
		return err
	}
	l.encode(&r)
	if len(l.buf) >= flushSize {
		return l.flush()
	}
	return nil
}

// addJump adds a record that changes which records are the history.
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

// apply moves the state over a record.
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

// noteBefore gathers an index entry for the next record when one is due.
func (l *Log) noteBefore() {
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

// reserve returns the room at the tail of a segment that is for control
// records: a full disk must not prevent a promise.
func reserve(size int64) int64 { return min(maxReserve, size/8) &^ (align - 1) }

// fits reports whether a record of that size still goes into the segment.
func (l *Log) fits(size int, kind Kind) bool {
	seg := l.seg
	limit := seg.size
	if kind == Append {
		limit -= reserve(seg.size)
	}
	return seg.end+int64(len(l.buf))+int64(size) <= limit
}

// flush writes the buffer with one write.
func (l *Log) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	seg := l.seg
	l.busySince.CompareAndSwap(0, int64(time.Since(l.epoch))) // until the sync behind it
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
		l.buf = nil // one huge record must not cost its size for ever
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
	l.setDurable(l.written)
	return nil
}

func (l *Log) setDurable(seq uint64) {
	l.durable = seq
	l.synced.Store(seq)
}

// jumpLocked accounts for a truncation or a snapshot reference at a place: cut
// is the records that it takes out of the history.
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

// addSpan adds a span that ends behind all others and takes in those that begin
// within it.
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

// roll ends the last segment and begins another with room for a record of that
// size. Everything in the old one is durable before the new one exists.
func (l *Log) roll(size int) error {
	if err := l.flush(); err != nil {
		return err
	}
	if err := l.syncSegment(); err != nil {
		return err
	}
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("close segment: %w", err)
	}
	return l.begin(size)
}

// begin makes the segment for the next record, with room for one of that size,
// out of the spare if that is ready and large enough.
func (l *Log) begin(size int) error {
	need := segmentFor(int64(size))
	f, fileSize, tmp := l.spare.take(need)
	if f == nil {
		var err error
		if f, fileSize, tmp, err = l.makeSegment(need); err != nil {
			return err
		}
	}
	l.f = f
	h := header{first: l.seq, size: fileSize, prevCRC: l.crc, state: l.st}
	if err := l.writeHeader(&h); err != nil {
		return err
	}
	path := filepath.Join(l.o.Dir, segmentName(l.seq))
	if err := l.publish(tmp, path); err != nil {
		return err
	}
	l.adopt(path, &h)
	return nil
}

// segmentFor returns the least size of a segment that can take so many bytes of
// entries.
func segmentFor(entries int64) int64 {
	return ((headerSize+entries)*8/7 + align) &^ (align - 1)
}

// makeSegment makes a file of zeros for a segment there and then.
func (l *Log) makeSegment(need int64) (f vfs.File, size int64, tmp string, err error) {
	size = max(min(startSize, l.o.SegmentSize), need)
	tmp = filepath.Join(l.o.Dir, newName)
	if f, err = l.zeroFile(tmp, size, func() bool { return false }); err != nil {
		return nil, 0, "", fmt.Errorf("make segment: %w", err)
	}
	return f, size, tmp, nil
}

func (l *Log) writeHeader(h *header) error {
	if _, err := l.f.WriteAt(h.encode(), 0); err != nil {
		return fmt.Errorf("write segment header: %w", err)
	}
	return nil
}

// adopt makes the open file the last segment of the log in memory, replacing
// one that begins with the same record.
func (l *Log) adopt(path string, h *header) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.mu.segs); n > 0 && l.mu.segs[n-1].first == h.first {
		l.mu.segs = l.mu.segs[:n-1]
	}
	l.pushLocked(newSegment(path, h))
	l.metrics.segments.Set(float64(len(l.mu.segs)))
}

func (l *Log) pushLocked(seg *segment) {
	l.seg = seg
	l.mu.segs = append(l.mu.segs, seg)
}

// publish makes the open file durable, and then its name.
func (l *Log) publish(tmp, path string) error {
	if !l.o.NoSync {
		if err := l.timeSync(l.f.Sync); err != nil {
			return fmt.Errorf("sync segment: %w", err)
		}
	}
	if err := l.o.FS.Rename(tmp, path); err != nil {
		return fmt.Errorf("rename segment: %w", err)
	}
	return l.syncDir()
}

func (l *Log) syncDir() error {
	if l.o.NoSync {
		return nil
	}
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
		return fmt.Errorf("sync log directory: %w", err)
	}
	return nil
}

// warnSlow reports an fsync that took too long, in ZooKeeper's words.
func (l *Log) warnSlow(took time.Duration) {
	l.o.Logger.Warn("fsync-ing the write ahead log took longer than the threshold; this adversely affects operation latency",
		zap.Duration("took", took), zap.Duration("threshold", l.o.FsyncWarn))
}

// Close closes the files without making anything durable. Owner only.
func (l *Log) Close() error {
	if errors.Is(l.failed, ErrClosed) {
		return nil
	}
	failed := l.failed
	l.failed = ErrClosed
	l.spare.discard()
	err := l.f.Close()
	if failed != nil {
		return nil // its owner knows; there is nothing to add
	}
	if err != nil {
		return fmt.Errorf("close log: %w", err)
	}
	return nil
}
