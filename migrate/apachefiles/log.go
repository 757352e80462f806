package apachefiles

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"runtime"
	"syscall"

	"github.com/zkd-project/zkd/jute"
)

const (
	fileHeader   = 4 + 4 + 8
	recordHeader = 8 + 4
	recordEnd    = 'B'
)

// logReader reads the records of a log file, as far as they are sound.
type logReader struct {
	file io.ReadSeeker
	in   *stream
	size int64 // of the file
}

// record is a record of a log. Its payload is valid until the next one is read.
type record struct {
	offset  int64
	payload []byte
}

// zxid returns the zxid of the record, which the payload has at a fixed place.
func (r record) zxid() jute.Zxid { return jute.Zxid(binary.BigEndian.Uint64(r.payload[12:])) }

// newLogReader reads the header of a file of this size. A file that is shorter than its header
// has no records.
func newLogReader(f io.ReadSeeker, size int64) (*logReader, error) {
	l := &logReader{file: f, in: newStream(f), size: size}
	if size < fileHeader {
		return l, nil
	}
	if magic, version := l.in.int32(), l.in.int32(); l.in.err == nil && (magic != logMagic || version != fileVersion) {
		l.in.fail("it is no log of version %d", fileVersion)
	}
	l.in.int64() // dbid
	return l, l.in.err
}

// next returns the next record, or io.EOF at a clean end: that of the file, or zeros up to it.
// An *endError says what else ends the records.
func (l *logReader) next() (record, error) {
	offset := l.in.offset + int64(l.in.at)
	left := l.size - offset
	if left == 0 || l.size < fileHeader {
		return record{}, io.EOF
	}
	end := func(format string, args ...any) (record, error) {
		return record{}, &endError{offset, fmt.Sprintf(format, args...)}
	}
	if left < recordHeader {
		return end("%d bytes, too few for a record", left)
	}
	sum, n := l.in.int64(), l.in.int32()
	switch {
	case l.in.err != nil:
		return record{}, l.in.err
	case n == 0 && sum == 0:
		zeros, err := l.onlyZeros(offset)
		if err != nil {
			return record{}, err
		} else if zeros {
			return record{}, io.EOF
		}
		return end("zeros, and then more")
	case n < txnHeader || int64(n) > left-recordHeader-1:
		return end("a record of %d bytes", n)
	}
	b := l.in.next(int(n) + 1)
	switch {
	case l.in.err != nil:
		return record{}, l.in.err
	case b[n] != recordEnd:
		return end("a record without its end mark")
	case int64(adler32.Checksum(b[:n])) != sum:
		return end("a record with a wrong checksum")
	}
	return record{offset, b[:n]}, nil
}

// onlyZeros reports whether the file consists of zeros from offset on. Most of them are holes,
// which are skipped where the system can tell.
func (l *logReader) onlyZeros(offset int64) (bool, error) {
	b := make([]byte, 64<<10)
	for offset < l.size {
		at, err := seekData(l.file, offset)
		if at < 0 || err != nil {
			return err == nil, err
		}
		n, err := io.ReadFull(l.file, b[:min(l.size-at, int64(len(b)))])
		if err != nil {
			return false, err
		}
		if len(bytes.TrimLeft(b[:n], "\x00")) > 0 {
			return false, nil
		}
		offset = at + int64(n)
	}
	return true, nil
}

// seekData moves to the next place from offset on that is no hole, and returns it; -1 means that
// there is none.
func seekData(f io.Seeker, offset int64) (int64, error) {
	if runtime.GOOS == "linux" {
		const whence = 3 // SEEK_DATA
		at, err := f.Seek(offset, whence)
		if errors.Is(err, syscall.ENXIO) {
			return -1, nil
		} else if err == nil {
			return at, nil
		}
	}
	return f.Seek(offset, io.SeekStart)
}

// endError says why the records of a log file end before the file does.
type endError struct {
	offset int64
	cause  string
}

func (e *endError) Error() string { return fmt.Sprintf("at byte %d: %s", e.offset, e.cause) }

// searchLimit bounds the part of a file that is searched for records after a torn one.
const searchLimit = 1 << 30

// findRecord looks for a sound record with a zxid greater than last in what follows a place
// where the records end. If there is one, the place is damaged; otherwise a crash has
// interrupted the last write.
func findRecord(b []byte, last jute.Zxid) (at int, found bool) {
	for at = 0; at+recordHeader+txnHeader < len(b); at++ {
		if b[at] != 0 || b[at+1] != 0 || b[at+2] != 0 || b[at+3] != 0 {
			continue // the upper half of the checksum
		}
		n := int64(binary.BigEndian.Uint32(b[at+8:]))
		if n < txnHeader || n > int64(len(b)-at-recordHeader-1) || b[at+recordHeader+int(n)] != recordEnd {
			continue
		}
		r := record{payload: b[at+recordHeader:][:n]}
		if r.zxid() > last && adler32.Checksum(r.payload) == binary.BigEndian.Uint32(b[at+4:]) {
			return at, true
		}
	}
	return 0, false
}
