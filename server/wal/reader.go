package wal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// Reader reads the entries of the history in order while the log is written. It reads
// written entries, durable or not. It remembers its place, so the cost of a call depends
// only on what it returns. Only one goroutine at a time may use it.
type Reader struct {
	log   *Log
	jumps uint64 // of the log, when the reader was made
	cursor
	seg *segment // being read; owned by the log and guarded by its lock
	f   vfs.File // of seg
	// The number of the next record, and the CRC of the previous one if one was read.
	seq     uint64
	off     int64
	crc     uint32
	chained bool
	err     error // the first failure; there is nothing after it
}

// NewReader returns a reader of the entries after a zxid, which must be the zxid of an entry
// or of a snapshot reference, or 0, as for Replay. Otherwise the error matches
// ErrDiscontinuous, or ErrPurged if the log does not reach back so far. It may be called
// from any goroutine. The caller closes the reader.
func (l *Log) NewReader(after jute.Zxid) (*Reader, error) {
	h := l.history()
	i, from, err := h.find(after)
	if err != nil {
		return nil, err
	}
	r := &Reader{log: l, jumps: h.jumps, cursor: cursor{at: from.last, dead: h.dead}, seq: from.seq}
	if err := r.openSegment(h.live[i], h.segs[i].path, from.offset); err != nil {
		return nil, err
	}
	if err := r.seek(after); err != nil {
		return nil, errors.Join(fmt.Errorf("read after %s: %w", after, err), r.Close())
	}
	return r, nil
}

// seek skips the entries up to after.
func (r *Reader) seek(after jute.Zxid) error {
	for r.at < after {
		b, err := r.read(indexStep)
		if err != nil {
			return err
		}
		if len(b) == 0 {
			return fmt.Errorf("the last entry is %s: %w", r.at, ErrDiscontinuous)
		}
		for r.at < after && wholeSize(b) > 0 {
			if b, _, _, err = r.next(b); err != nil {
				return err
			}
		}
	}
	if r.at > after {
		return fmt.Errorf("entry %s comes next: %w", r.at, ErrDiscontinuous)
	}
	return nil
}

// Next returns the next entries, of about maxBytes but at least one. It returns none if
// there is nothing more now; the caller may ask again later. The caller owns the records
// and their payloads; the payloads of one call share their memory.
//
// It returns ErrRewritten if the history was changed since the reader was made, and
// ErrPurged if the log no longer has the next entries. After an error the reader can't be
// used; close it.
func (r *Reader) Next(maxBytes int) ([]Record, error) {
	for r.err == nil {
		b, err := r.read(maxBytes)
		if err == nil && len(b) == 0 {
			return nil, nil
		}
		records := make([]Record, 0, countWhole(b))
		for err == nil && wholeSize(b) > 0 {
			var rec Record
			var ok bool
			if b, rec, ok, err = r.next(b); ok {
				records = append(records, rec)
			}
		}
		if r.err = err; err == nil && len(records) > 0 {
			return records, nil
		}
	}
	return nil, r.err
}

// Ahead returns how many bytes of records the log has after those that were read.
func (r *Reader) Ahead() int64 {
	n := -r.off
	for _, seg := range r.log.history().segs {
		if seg.first >= r.seg.first {
			n += seg.end - headerSize
		}
	}
	return n + headerSize
}

// Close closes the file that is being read.
func (r *Reader) Close() error {
	if r.f == nil {
		return nil
	}
	f := r.f
	r.f, r.err = nil, ErrClosed
	return f.Close()
}

// next decodes the record at the beginning of b, which is the one at the cursor. ok is set
// if it is an entry of the history.
func (r *Reader) next(b []byte) (rest []byte, rec Record, ok bool, err error) {
	var f frame
	err = f.decode(b, r.seg.salt)
	if err == nil && (f.seq != r.seq || r.chained && f.prevCRC != r.crc) {
		err = errOutOfPlace
	}
	if err == nil {
		ok, err = r.pass(&f)
	}
	if err != nil {
		return nil, Record{}, false, fmt.Errorf("record %d in %s at offset %d: %w", r.seq, r.seg.path, r.off, err)
	}
	r.seq, r.off, r.crc, r.chained = f.seq+1, r.off+int64(f.size), f.crc, true
	return b[f.size:], f.Record, ok, nil
}

// read returns about n bytes of the file at the cursor, or the whole next record if it is
// larger. It returns none if there is no further record.
func (r *Reader) read(n int) ([]byte, error) {
	end, err := r.locate()
	if err != nil || end == r.off {
		return nil, err
	}
	room := end - r.off
	b := make([]byte, min(room, int64(max(n, recordHeader))))
	if err := r.fill(b, 0); err != nil {
		return nil, err
	}
	payload, err := payloadLen(b, room)
	if err != nil {
		return nil, fmt.Errorf("record %d in %s at offset %d: %w", r.seq, r.seg.path, r.off, err)
	}
	if size, got := frameSize(payload), len(b); size > got {
		b = slices.Grow(b, size-got)[:size]
		if err := r.fill(b, got); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// fill reads b[from:] from the file at the cursor.
func (r *Reader) fill(b []byte, from int) error {
	if n, err := r.f.ReadAt(b[from:], r.off+int64(from)); n < len(b)-from {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read log: %w", err)
	}
	return nil
}

// locate returns the offset after the last written record of the current segment. At the
// end of a segment it switches to the next one.
func (r *Reader) locate() (int64, error) {
	l := r.log
	for {
		l.mu.Lock()
		jumps, end, done := l.mu.jumps, r.seg.end, r.seq == r.seg.next
		var following *segment
		if done {
			following = l.followingLocked(r.seg)
		}
		l.mu.Unlock()
		switch {
		case jumps != r.jumps:
			return 0, ErrRewritten
		case !done || following == r.seg:
			return end, nil
		case following == nil:
			return 0, fmt.Errorf("record %d: %w", r.seq, ErrPurged)
		}
		if err := r.openSegment(following, following.path, headerSize); err != nil {
			return 0, err
		}
	}
}

// followingLocked returns the segment after seg, seg itself if it is the last one, or nil
// if the following one was purged.
func (l *Log) followingLocked(seg *segment) *segment {
	segs := l.mu.segs
	if segs[len(segs)-1] == seg {
		return seg
	}
	i, found := slices.BinarySearchFunc(segs, seg.next, func(s *segment, seq uint64) int { return cmp.Compare(s.first, seq) })
	if !found {
		return nil
	}
	return segs[i]
}

// openSegment switches to a segment.
func (r *Reader) openSegment(seg *segment, path string, off int64) error {
	f, err := r.log.o.FS.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("segment %s: %w", path, ErrPurged)
	} else if err != nil {
		return err
	}
	if r.f != nil {
		_ = r.f.Close() // it was only read
	}
	r.seg, r.f, r.off = seg, f, off
	return nil
}

// wholeSize returns the size of the record that b begins with, or 0 if b does not hold all
// of it.
func wholeSize(b []byte) int {
	if len(b) < recordHeader || binary.LittleEndian.Uint16(b) != recordMagic {
		return 0
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if n > MaxPayload || frameSize(int(n)) > len(b) {
		return 0
	}
	return frameSize(int(n))
}

// countWhole returns how many whole records b holds.
func countWhole(b []byte) (n int) {
	for size := wholeSize(b); size > 0; size = wholeSize(b) {
		b = b[size:]
		n++
	}
	return n
}
