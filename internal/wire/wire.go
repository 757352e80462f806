// Package wire decodes and encodes the small binary records that servers exchange:
// little-endian numbers, varints, and bytes preceded by their length.
package wire

import (
	"encoding/binary"
	"errors"
)

// ErrMalformed is the error of a record that ends too early or has a wrong length.
var ErrMalformed = errors.New("malformed record")

// Reader decodes a record. After an error all its results are zero.
type Reader struct {
	b      []byte
	failed bool
}

// NewReader returns a reader of b.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Fail makes the rest of the record malformed.
func (r *Reader) Fail() { r.b, r.failed = nil, true }

// Err returns ErrMalformed after an error.
func (r *Reader) Err() error {
	if r.failed {
		return ErrMalformed
	}
	return nil
}

// More reports whether anything is left.
func (r *Reader) More() bool { return len(r.b) > 0 }

// Rest returns what is left. It shares the record's memory.
func (r *Reader) Rest() []byte { return r.b }

// End returns the error of the record, which must end here.
func (r *Reader) End() error {
	if r.More() {
		r.Fail()
	}
	return r.Err()
}

func (r *Reader) take(n int) []byte {
	if len(r.b) < n {
		r.Fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// Byte returns the next byte.
func (r *Reader) Byte() byte {
	if v := r.take(1); v != nil {
		return v[0]
	}
	return 0
}

// Uint32 returns the number in the next 4 bytes.
func (r *Reader) Uint32() uint32 {
	if v := r.take(4); v != nil {
		return binary.LittleEndian.Uint32(v)
	}
	return 0
}

// Uint64 returns the number in the next 8 bytes.
func (r *Reader) Uint64() uint64 {
	if v := r.take(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

// Varint returns a signed number of variable length.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Count returns the number of following elements, each of which takes at least size bytes, so
// that a short record can't announce many.
func (r *Reader) Count(size int) int {
	n, used := binary.Uvarint(r.b)
	if used <= 0 || n > uint64(len(r.b)-used)/uint64(size) {
		r.Fail()
		return 0
	}
	r.b = r.b[used:]
	return int(n)
}

// Bytes returns bytes preceded by their length. They share the record's memory.
func (r *Reader) Bytes() []byte { return r.take(r.Count(1)) }

// String returns a copy of what Bytes returns.
func (r *Reader) String() string { return string(r.Bytes()) }

// AppendBytes appends the length of v and v.
func AppendBytes[T string | []byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}
