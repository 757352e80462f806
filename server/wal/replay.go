package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/zkd-project/zkd/jute"
)

// history is a consistent view of the log at some moment.
type history struct {
	segs  []segment
	live  []*segment // the same segments, which change further
	dead  []span
	floor place
	jumps uint64
}

func (l *Log) history() history {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := history{segs: make([]segment, 0, len(l.mu.segs)), live: l.mu.segs, dead: l.mu.dead, floor: l.mu.floor, jumps: l.mu.jumps}
	for _, seg := range l.mu.segs {
		h.segs = append(h.segs, *seg)
	}
	return h
}

// Replay calls fn with each entry of the history after the zxid after, in order. after must
// be the zxid of an entry or of a snapshot reference, or 0 for the whole history. Each
// entry must follow the previous one, and the first must follow after, or Replay returns an
// error that matches ErrDiscontinuous. It returns ErrPurged if the log does not reach back
// so far, and fn's error if fn returns one.
//
// The payload is valid only until fn returns. Replay may be called from any goroutine, also
// while the log is written: it ends with the last record written when it was called,
// durable or not.
func (l *Log) Replay(after jute.Zxid, fn func(Record) error) error {
	h := l.history()
	err := h.entries(l, after, func(f *frame) error { return fn(f.Record) })
	if err == errStop {
		return nil
	}
	return err
}

// errStop ends a walk early.
var errStop = errors.New("stop")

// entries calls fn with each entry after the zxid after.
func (h *history) entries(l *Log, after jute.Zxid, fn func(*frame) error) error {
	start, from, err := h.find(after)
	if err != nil {
		return err
	}
	c := cursor{at: from.last, dead: h.dead}
	visit := func(f *frame) error {
		before := c.at
		ok, err := c.pass(f)
		switch {
		case err != nil:
			return fmt.Errorf("replay after %s: %w", after, err)
		case before < after && c.at > after:
			return fmt.Errorf("replay after %s: entry %s follows %s: %w", after, c.at, before, ErrDiscontinuous)
		case !ok || c.at <= after:
			return nil
		}
		return fn(f)
	}
	var w window
	for i := start; i < len(h.segs); i++ {
		if err := walk(l, &h.segs[i], from, &w, visit); err != nil {
			return err
		}
		from = place{}
	}
	if c.at < after {
		return fmt.Errorf("replay after %s: the last entry is %s: %w", after, c.at, ErrDiscontinuous)
	}
	return nil
}

// find returns the latest place from which all entries after the zxid after are seen, and
// the index of its segment. The history before that place ended at or before after, so none
// of its entries is needed.
func (h *history) find(after jute.Zxid) (int, place, error) {
	if after >= h.floor.last {
		for i := len(h.segs) - 1; i >= 0; i-- {
			for _, p := range slices.Backward(h.segs[i].index) {
				if p.last <= after && p.seq >= h.floor.seq {
					return i, p, nil
				}
			}
		}
	}
	return 0, place{}, fmt.Errorf("entries after %s (the log begins after %s): %w", after, h.floor.last, ErrPurged)
}

// BytesAfter estimates, without reading, how many bytes of records the log has after the
// zxid after, at most about 256 KiB too many. It returns false if the log does not reach
// back so far. It may be called from any goroutine.
func (l *Log) BytesAfter(after jute.Zxid) (int64, bool) {
	h := l.history()
	start, from, err := h.find(after)
	if err != nil {
		return 0, false
	}
	n := headerSize - from.offset
	for _, seg := range h.segs[start:] {
		n += seg.end - headerSize
	}
	return n, true
}

// Before returns a zxid after which the log has at least n bytes of records, and at most about
// 256 KiB more, or the zxid after which the log begins. It may be called from any goroutine.
func (l *Log) Before(n int64) jute.Zxid {
	h := l.history()
	for i := len(h.segs) - 1; i >= 0; i-- {
		seg := &h.segs[i]
		for _, p := range slices.Backward(seg.index) {
			if n <= seg.end-p.offset && p.seq >= h.floor.seq {
				return p.last
			}
		}
		n -= seg.end - headerSize
	}
	return h.floor.last
}

// walk calls fn with each record of the segment from a place on, or from the segment's
// beginning if the place is zero.
func walk(l *Log, seg *segment, from place, w *window, fn func(*frame) error) error {
	f, err := l.o.FS.Open(seg.path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("segment %s: %w", seg.path, ErrPurged)
	} else if err != nil {
		return err
	}
	defer f.Close()
	w.reset(f, seg.end)
	if from.offset == 0 {
		from = seg.index[0]
	}
	seq, crc, first := from.seq, uint32(0), true
	for off := from.offset; off < seg.end; seq++ {
		r, err := w.frame(off, seg.salt)
		if err == nil && (r.seq != seq || !first && r.prevCRC != crc) {
			err = errOutOfPlace
		}
		if err != nil {
			return fmt.Errorf("record %d in %s at offset %d: %w", seq, seg.path, off, err)
		}
		if err := fn(r); err != nil {
			return err
		}
		off += int64(r.size)
		crc, first = r.crc, false
	}
	return nil
}

// cutFor returns the records that r, a truncation or a snapshot reference, takes out of the
// history. All records before r have been written.
func (l *Log) cutFor(r *Record) (span, error) {
	cut := span{to: l.seq, from: l.seq}
	if r.Kind == Snapshot {
		if ref, err := decodeSnapRef(r.Zxid, r.Payload); err != nil {
			return cut, err
		} else if ref.Installed {
			cut.from = 1
		}
		return cut, nil
	}
	h := l.history()
	if r.Zxid < h.floor.last {
		// It cuts into the purged part: all remaining entries are cut.
		cut.from = h.floor.seq
		return cut, nil
	}
	err := h.entries(l, r.Zxid, func(f *frame) error {
		cut.from = f.seq
		return errStop
	})
	if err != nil && err != errStop {
		return cut, fmt.Errorf("truncate to %s: %w", r.Zxid, err)
	}
	return cut, nil
}
