package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/vfs"
)

// Scan calls fn with the records that count of the log in dir, in their order. fn may use a
// payload until it returns. Scan changes nothing, works on the log of a server that runs, and
// continues after damage with the next segment. It returns the errors of fn and of the files, of
// type *fault.Error.
func Scan(fsys vfs.FS, dir string, fn func(Record) error) error {
	firsts, _, err := listSegments(fsys, dir)
	if err != nil {
		return err
	}
	var damage error
	for i, first := range firsts {
		next := uint64(0)
		if i+1 < len(firsts) {
			next = firsts[i+1]
		}
		f, err := fsys.Open(filepath.Join(dir, segmentName(first)))
		switch {
		case errors.Is(err, fs.ErrNotExist): // purged meanwhile
			continue
		case err != nil:
			return fault.IO(dir, err)
		}
		bad, err := scanSegment(f, first, next, fn)
		damage = errors.Join(damage, bad)
		if err = errors.Join(err, f.Close()); err != nil {
			return errors.Join(err, damage)
		}
	}
	return damage
}

// scanSegment calls fn with the records of a segment before the record next, which begins another
// segment, if next is not 0. It returns what is damaged, and the error of fn or of reading.
func scanSegment(f vfs.File, first, next uint64, fn func(Record) error) (damage, err error) {
	s, err := newScan(f, first)
	if errors.Is(err, errInvalid) {
		return fault.New(fault.Damaged, f.Name(), err), nil
	} else if err != nil {
		return nil, err
	}
	for next == 0 || s.seq < next {
		r, err := s.next()
		if err != nil {
			if _, damaged, err := s.end(next, err); err != nil || !damaged {
				return nil, err
			}
			return fault.New(fault.Damaged, f.Name(), fmt.Errorf("record %d: %w", s.seq, err)), nil
		}
		if err := fn(r.Record); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// scan reads the records of one segment.
type scan struct {
	h   header
	w   window
	seq uint64 // of the next record
	off int64  // of the next record
	crc uint32 // of the record before
}

// newScan begins with the record first, or with the one that the header names if first is 0.
func newScan(f vfs.File, first uint64) (*scan, error) {
	h, err := readHeader(f, first)
	return &scan{h: h, w: window{f: f, limit: h.size}, seq: h.first, off: headerSize, crc: h.prevCRC}, err
}

// next returns the next record, which is valid until the next call. At the end of the records
// there is an error that end explains.
func (s *scan) next() (*frame, error) {
	r, err := s.w.expect(s.off, s.h.crc, s.seq, s.crc)
	if err == nil {
		s.seq, s.off, s.crc = s.seq+1, s.off+int64(r.size), r.crc
	}
	return r, err
}

// end reports what lies where next has failed because of cause, and whether that is damage. next
// is the first record of the segment that follows, 0 if there is none or it is not known. The
// error is one of reading.
func (s *scan) end(next uint64, cause error) (e end, damaged bool, err error) {
	e = end{offset: s.off, seq: s.seq - 1}
	if errors.Is(cause, errOutOfPlace) {
		e.bad = cause
	} else if !errors.Is(cause, errInvalid) {
		return e, false, cause
	}
	err = e.findDurableAfter(&s.w, s.h.crc, cause)
	return e, next > 0 && s.seq < next || next == 0 && e.bad != nil, err
}
