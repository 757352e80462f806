package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"go.uber.org/zap"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/internal/vfs"
)

const (
	damagedSuffix = ".damaged"
	// asideName is the first segment of the log that replaces a damaged one, until all damaged
	// segments are renamed.
	asideName = "aside" + tmpSuffix
)

// errInterrupted is the cause of damage that an earlier run found without finishing to set
// the log aside.
var errInterrupted = errors.New("setting aside a damaged log was interrupted")

// SetAside closes the log and opens an empty one in its place. It is for a log that reads
// well but is useless because the snapshot that its history begins with is damaged, for the
// reason cause. It does what Options.SetAside describes for a damaged log, and sets
// Recovered.Damaged. Owner only.
func (l *Log) SetAside(cause error) (*Log, *Recovered, error) {
	if err := l.Close(); err != nil {
		return nil, nil, fmt.Errorf("set aside a log: %w", err)
	}
	return openAside(l.o, l.metrics, &CorruptError{Kind: fault.Damaged, Segment: l.o.Dir, Seq: 1, Cause: cause})
}

// openAside sets a log aside and opens its replacement.
func openAside(o Options, m metrics, corrupt *CorruptError) (*Log, *Recovered, error) {
	if err := setAside(o, m, corrupt); err != nil {
		return nil, nil, err
	}
	o.Logger.Error("set a log aside", zap.Error(corrupt))
	l, rec, err := open(o, m)
	if err != nil {
		return nil, nil, err
	}
	rec.Damaged = corrupt
	return l, rec, nil
}

// setAside replaces a damaged log by an empty one with the identity of the options and the
// newest promise in any readable record or header. It renames the damaged segments to names
// that end in .damaged, and lists these in corrupt.
//
// The first segment of the new log is durable, as asideName, before the first old segment
// is renamed. It gets its final name when all of them are. So a crash leaves either the
// damaged log or the mark to continue from, but never a part of the log that looks
// complete, nor an empty directory.
func setAside(o Options, m metrics, corrupt *CorruptError) error {
	firsts, _, err := listSegments(o.FS, o.Dir)
	if err != nil {
		return err
	}
	l := newLog(o, m)
	l.st.ident = append([]byte(nil), o.SetAsideIdent...)
	if errors.Is(corrupt.Cause, errInterrupted) {
		l.st.promise, err = promiseOfAside(o)
	} else {
		l.st.promise, err = newestPromise(o, firsts)
	}
	if err != nil {
		return fmt.Errorf("look for the promise in a log that is to be set aside: %w", err)
	}
	if err = l.writeAside(); err == nil {
		corrupt.Renamed, err = l.swapAside(firsts)
	}
	if err != nil {
		return fmt.Errorf("set aside a log: %w", err)
	}
	return nil
}

// promiseOfAside returns the promise found by an interrupted run.
func promiseOfAside(o Options) ([]byte, error) {
	f, err := o.FS.Open(filepath.Join(o.Dir, asideName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, err := readHeader(f, 1)
	return h.state.promise, err
}

// writeAside makes the first segment of the new log. It replaces an earlier one, which may
// be readable without being on the disk.
func (l *Log) writeAside() error {
	f, size, tmp, err := l.makeSegment(headerSize)
	if err != nil {
		return err
	}
	h := l.nextHeader(size)
	err = l.writeHeader(f, &h)
	if err == nil {
		err = l.publish(f, tmp, filepath.Join(l.o.Dir, asideName))
	}
	return errors.Join(err, f.Close())
}

// swapAside renames the damaged segments, and then the first segment of the new log. It
// returns the new names of the damaged segments.
func (l *Log) swapAside(firsts []uint64) ([]string, error) {
	names := []string{}
	for _, first := range firsts {
		path := filepath.Join(l.o.Dir, segmentName(first))
		name, err := freeName(l.o.FS, path)
		if err == nil {
			err = l.o.FS.Rename(path, name)
		}
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	if err := l.syncDir(); err != nil {
		return nil, err
	}
	if err := l.o.FS.Rename(filepath.Join(l.o.Dir, asideName), filepath.Join(l.o.Dir, segmentName(1))); err != nil {
		return nil, err
	}
	return names, l.syncDir()
}

// freeName returns a name for a damaged file that no earlier damaged file has.
func freeName(fsys vfs.FS, path string) (string, error) {
	name := path + damagedSuffix
	for n := 2; ; n++ {
		if _, err := fsys.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", err
		}
		name = path + "." + strconv.Itoa(n) + damagedSuffix
	}
}

// newestPromise searches the segments for the newest promise: the one in the valid record
// or header with the highest number. It returns nil if there is none. If the operator has
// ordered the log to be set aside, segments that can't be read are skipped: the promise is
// only an additional fence, since the new log has another identity.
func newestPromise(o Options, firsts []uint64) ([]byte, error) {
	var s promiseSearch
	for i, first := range firsts {
		limit := uint64(0)
		if i+1 < len(firsts) {
			limit = firsts[i+1]
		}
		err := s.segment(o.FS, filepath.Join(o.Dir, segmentName(first)), first, limit)
		if err != nil && o.Order == nil {
			return nil, err
		}
	}
	return s.promise, nil
}

// promiseSearch is the newest promise found so far.
type promiseSearch struct {
	promise []byte
	seq     uint64 // of its record, or of the last record that a header accounts for
}

func (s *promiseSearch) found(promise []byte, seq uint64) {
	if seq >= s.seq && len(promise) > 0 {
		s.promise, s.seq = append([]byte(nil), promise...), seq
	}
}

// segment searches a segment. Unless limit is 0, records from limit on do not count.
func (s *promiseSearch) segment(fsys vfs.FS, path string, first, limit uint64) error {
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	w := window{f: f, limit: info.Size()}
	b, err := w.at(0, headerSize)
	if err != nil || len(b) < headerSize {
		return err
	}
	h, err := decodeHeader(b)
	if err == nil {
		s.found(h.state.promise, h.first-1)
	}
	// The salt of the records is the CRC of the header, even if the header does not match it.
	salts := []uint32{h.crc}
	if crc := headerCRCOf(b); crc != h.crc {
		salts = append(salts, crc)
	}
	for off := int64(headerSize); off < w.limit; {
		size, err := s.record(&w, off, salts, first, limit)
		if err != nil {
			return err
		}
		off += size
	}
	return nil
}

// record looks for a record at off, and returns the distance to the next place to look at.
func (s *promiseSearch) record(w *window, off int64, salts []uint32, first, limit uint64) (int64, error) {
	b, err := w.at(off, recordHeader)
	if err != nil {
		return 0, err
	}
	if len(b) < recordHeader || binary.LittleEndian.Uint16(b) != recordMagic {
		return align, nil
	}
	// As in end.inspect: check for a plausible number before computing a checksum.
	seq := binary.LittleEndian.Uint64(b[8:])
	if seq < first || seq-first > uint64(w.limit)/recordHeader {
		return align, nil
	}
	for _, salt := range salts {
		f, err := w.frame(off, salt)
		if errors.Is(err, errInvalid) || fault.KindOf(err) == fault.Newer {
			continue
		} else if err != nil {
			return 0, err
		}
		if f.Kind == Promise && (limit == 0 || seq < limit) {
			s.found(f.Payload, seq)
		}
		return int64(f.size), nil
	}
	return align, nil
}
