package wal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

const (
	segmentSuffix = ".wal"
	// indexStep is the distance between the places in a segment's index, in bytes.
	indexStep = 256 << 10
	// windowSize is how much is read at a time.
	windowSize = 1 << 20
)

// segment is one file of the log, and the part of it that counts.
type segment struct {
	path    string
	first   uint64 // seq of the first record
	next    uint64 // seq after the last record that counts
	end     int64  // offset after the last record that counts
	size    int64
	salt    uint32
	prevCRC uint32 // of the record first-1
	// index has places in the order of their offsets; the first is the beginning of the records.
	index []place
}

// place is a position in the log.
type place struct {
	last   jute.Zxid // of the history before the record at offset
	seq    uint64
	offset int64
}

func newSegment(path string, h *header) *segment {
	return &segment{
		path: path, first: h.first, next: h.first, end: headerSize,
		size: h.size, salt: h.crc, prevCRC: h.prevCRC,
		index: []place{{last: h.state.last, seq: h.first, offset: headerSize}},
	}
}

// note adds the place before a record to the index if it is far enough from the last one
// there, or if the history jumps there.
func (s *segment) note(p place, jump bool) {
	if jump || p.offset-s.index[len(s.index)-1].offset >= indexStep {
		s.index = append(s.index, p)
	}
}

func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, segmentSuffix) }

// parseSegmentName returns the number of the first record, and whether name is the name of
// a segment.
func parseSegmentName(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0
}

// listSegments returns the first record numbers of the segments in dir, in order, and the
// names of leftovers that a new start removes.
func listSegments(fsys vfs.FS, dir string) (firsts []uint64, leftovers []string, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list log: %w", err)
	}
	for _, e := range entries { // sorted by name, and so by number
		if n, ok := parseSegmentName(e.Name()); ok {
			firsts = append(firsts, n)
		} else if isLeftover(e.Name()) {
			leftovers = append(leftovers, filepath.Join(dir, e.Name()))
		}
	}
	return firsts, leftovers, nil
}

// isLeftover reports whether a file is an unfinished one of the log, which a new start
// ignores. Files with other names do not belong to the log.
func isLeftover(name string) bool {
	return name == newName || name == asideName ||
		strings.HasPrefix(name, sparePrefix) && strings.HasSuffix(name, tmpSuffix)
}

// window reads a file by offset through one buffer, which grows only for a record larger
// than it.
type window struct {
	f     vfs.File
	limit int64 // end of the readable bytes
	buf   []byte
	off   int64 // of buf[0] in the file
	last  frame // what frame has returned
}

// reset switches the window to another file.
func (w *window) reset(f vfs.File, limit int64) {
	*w = window{f: f, limit: limit, buf: w.buf[:0]}
}

// at returns up to n bytes at off, fewer only at the limit or at the end of the file. They
// are valid until the next call.
func (w *window) at(off int64, n int) ([]byte, error) {
	n = int(min(int64(n), max(0, w.limit-off)))
	if i := off - w.off; i >= 0 && i+int64(n) <= int64(len(w.buf)) {
		return w.buf[i : i+int64(n)], nil
	}
	want := int(min(int64(max(n, windowSize)), w.limit-off))
	if cap(w.buf) < want {
		w.buf = make([]byte, 0, want)
	}
	w.off, w.buf = off, w.buf[:want]
	got, err := w.f.ReadAt(w.buf, off)
	w.buf = w.buf[:got]
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fault.New(fault.Unreadable, w.f.Name(), err)
	}
	return w.buf[:min(n, got)], nil
}

// frame reads the record at off, which is valid until the next call. An error that matches
// errInvalid means that there is none.
func (w *window) frame(off int64, salt uint32) (*frame, error) {
	h, err := w.at(off, recordHeader)
	if err != nil {
		return nil, err
	}
	if len(h) < recordHeader {
		return nil, invalidf("end of segment")
	}
	n, err := payloadLen(h, w.limit-off)
	if err != nil {
		return nil, err
	}
	b, err := w.at(off, frameSize(n))
	if err == nil {
		err = w.last.decode(b, salt)
	}
	return &w.last, err
}

// expect reads the record at off, which must have the number seq and follow a record whose
// CRC is prevCRC.
func (w *window) expect(off int64, salt uint32, seq uint64, prevCRC uint32) (*frame, error) {
	f, err := w.frame(off, salt)
	if err == nil && (f.seq != seq || f.prevCRC != prevCRC) {
		err = errOutOfPlace
	}
	return f, err
}

// errOutOfPlace is a whole record that does not follow the previous one. No crash leaves
// that: each place of a segment is written once. Its checksum starts from that of its
// segment's header, so it can't be another log's: a write went to the wrong place, or was
// lost.
var errOutOfPlace = errors.New("record out of place")

// readHeader reads and checks the header of the segment that must begin with the record
// number first, or with any if first is 0. An error that matches errInvalid means that
// bytes are damaged; other errors are faults.
func readHeader(f vfs.File, first uint64) (header, error) {
	w := window{f: f, limit: headerSize}
	b, err := w.at(0, headerSize)
	if err != nil {
		return header{}, err
	}
	h, err := decodeHeader(b)
	if errors.Is(err, errInvalid) && h.sealed(b) {
		return h, fault.New(fault.Inconsistent, f.Name(), fmt.Errorf("its header's checksum is right, and this version of zkd does not understand the header: %v", err))
	} else if errors.Is(err, errInvalid) {
		return h, err
	} else if err != nil {
		return h, fault.New(fault.Newer, f.Name(), err)
	}
	if first > 0 && h.first != first {
		return h, fault.New(fault.Foreign, f.Name(), fmt.Errorf("its header is that of segment %d", h.first))
	}
	info, err := f.Stat()
	if err != nil {
		return h, fault.IO(f.Name(), err)
	}
	if info.Size() < h.size {
		return h, invalidf("%d bytes of %d", info.Size(), h.size)
	}
	return h, nil
}
