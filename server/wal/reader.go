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

// Reader reads the entries of the history in order, at its own pace, while the
// log is written: what is written is read, durable or not. It remembers its
// place, so a call costs what it returns. One goroutine at a time may use it.
type Reader struct {
	log   *Log
	jumps uint64 // of the log, when the reader was made
	cursor
	seg *segment // being read; the log's, with its lock
	f   vfs.File // of seg
	// The next record, and the CRC of the one before it if one was read.
	seq     uint64
	off     int64
	crc     uint32
	chained bool
	err     error // the first failure; there is nothing after it
}

// NewReader returns a reader of the entries behind after, which must be the zxid
// of an entry or of a snapshot reference, or 0, as for Replay: if it is not, the
// error matches ErrDiscontinuous, or ErrPurged if the log does not reach back so
// far. It may be called from any goroutine. The caller closes the reader.
func (l *Log) NewReader(after jute.Zxid) (*Reader, error) {
	h := l.history()
	i, from, err := h.find(after)
	if err != nil {
		return nil, err
	}
	r := &Reader{log: l, jumps: h.jumps, cursor: cursor{at: from.last, dead: h.dead}, seq: from.seq}
	if err := r.enter(h.live[i], h.segs[i].path, from.offset); err != nil {
		return nil, err
	}
	if err := r.seek(after); err != nil {
		return nil, errors.Join(fmt.Errorf("read behind %s: %w", after, err), r.Close())
	}
	return r, nil
}

// seek passes the entries up to after.
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

// Next returns the next entries, of about maxBytes but at least one, or none if
// there is nothing more now: then ask again later. The records and their
// payloads are the caller's; the payloads of one call share their memory.
//
// It returns ErrRewritten if the history was changed behind the reader's back,
// and ErrPurged if it fell so far behind that the log has the next entries no
// longer. After an error the reader is of no use; close it.
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

// Close closes the file that is being read.
func (r *Reader) Close() error {
	if r.f == nil {
		return nil
	}
	f := r.f
	r.f, r.err = nil, ErrClosed
	return f.Close()
}

// next takes the record at the beginning of b, which stands at the cursor. ok is
// set if it is an entry of the history.
func (r *Reader) next(b []byte) (rest []byte, rec Record, ok bool, err error) {
	f, err := decodeFrame(b, r.seg.salt)
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

// read returns about n bytes of the file at the cursor, or as many as the next
// record has if that is more. None means that there is no further record.
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

// locate returns the offset behind the last written record of the segment that
// is being read, and turns to the next segment at the end of one.
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
		if err := r.enter(following, following.path, headerSize); err != nil {
			return 0, err
		}
	}
}

// followingLocked returns the segment behind seg, seg itself if it is the last
// one, or nil if the one behind it was purged.
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

// enter turns to a segment.
func (r *Reader) enter(seg *segment, path string, off int64) error {
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

// wholeSize returns the size of the record that b begins with, or 0 if b does not
// hold all of it.
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
