package apachefiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
)

// maxStream bounds the length of a snapshot, and maxValue that of a value, in bytes: a
// compressed file can be much larger than it looks.
const (
	maxStream = 64 << 30
	maxValue  = 1 << 30
)

// stream reads primitives, and keeps the checksum of what it has read if it has a sum. After the
// first error all reads return zero values.
type stream struct {
	r      io.Reader
	buf    []byte
	at     int         // of the next byte in buf
	offset int64       // of buf[0]
	sum    hash.Hash32 // nil for none
	summed int         // bytes of buf that sum has
	err    error
}

var errCut = errors.New("it is not complete")

const streamBuffer = 64 << 10

func newStream(r io.Reader) *stream {
	return &stream{r: r, buf: make([]byte, 0, streamBuffer)}
}

// next returns the next n bytes, which are valid until the next call, or nil after an error.
// Its buffer grows only as far as bytes arrive.
func (s *stream) next(n int) []byte {
	for s.err == nil && len(s.buf)-s.at < n {
		s.fill()
	}
	if s.err != nil {
		return nil
	}
	s.at += n
	return s.buf[s.at-n : s.at]
}

// fill reads more bytes into the buffer.
func (s *stream) fill() {
	if s.at > 0 {
		if s.sum != nil {
			s.checksum()
		}
		s.offset += int64(s.at)
		s.buf = s.buf[:copy(s.buf, s.buf[s.at:])]
		s.at, s.summed = 0, 0
	}
	if len(s.buf) == cap(s.buf) {
		s.buf = append(s.buf, make([]byte, len(s.buf))...)[:len(s.buf)]
	}
	n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	switch {
	case s.offset > maxStream:
		s.err = errors.New("it is too long")
	case n > 0:
	case errors.Is(err, io.EOF):
		s.err = errCut
	case err != nil:
		s.err = err
	}
}

// checksum returns the Adler-32 of all bytes that next has returned.
func (s *stream) checksum() uint32 {
	s.sum.Write(s.buf[s.summed:s.at])
	s.summed = s.at
	return s.sum.Sum32()
}

// rest returns what is left, if it is no more than limit bytes.
func (s *stream) rest(limit int) []byte {
	for s.err == nil && len(s.buf)-s.at <= limit {
		s.fill()
	}
	if errors.Is(s.err, errCut) {
		s.err = nil
	}
	if len(s.buf)-s.at > limit {
		s.fail("%d bytes and more after its end", limit)
	}
	return s.buf[s.at:]
}

func (s *stream) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

func (s *stream) int32() int32 {
	if b := s.next(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (s *stream) int64() int64 {
	if b := s.next(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// count reads the number of elements of a table.
func (s *stream) count() int {
	n := s.int32()
	if n < 0 {
		s.fail("a table of %d rows", n)
		return 0
	}
	return int(n)
}

// bytes reads a buffer or a string, which is valid until the next read; nil means null.
func (s *stream) bytes() []byte {
	n := s.int32()
	switch {
	case s.err != nil || n == -1:
		return nil
	case n < 0 || n > maxValue:
		s.fail("a value of %d bytes", n)
		return nil
	}
	return s.next(int(n))
}
