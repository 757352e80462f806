// Package wire decodes and encodes the binary records of zkd's own formats: fixed-width
// numbers, varints, and bytes preceded by their length. Varints are those of encoding/binary;
// a Reader accepts only their shortest form, so that a value has one encoding.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// ErrMalformed is wrapped by the errors of records that no encoder produces.
var ErrMalformed = errors.New("malformed record")

var errTruncated = fmt.Errorf("truncated: %w", ErrMalformed)

// Reader decodes a record. After the first error all its results are zero. What it returns
// shares the record's memory, unless it says that it copies.
type Reader struct {
	s   string
	at  int // offset in s of the next byte
	err error
}

// NewReader returns a reader of b, which must not change while what it has returned is in use.
func NewReader(b []byte) Reader { return Reader{s: unsafe.String(unsafe.SliceData(b), len(b))} }

// NewStringReader returns a reader of s. The bytes that it returns must not be changed.
func NewStringReader(s string) Reader { return Reader{s: s} }

// Fail makes err the reader's error, unless it already has one.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.at = len(r.s)
}

// Malformed makes the rest of the record malformed, for a reason.
func (r *Reader) Malformed(why string) { r.Fail(fmt.Errorf("%s: %w", why, ErrMalformed)) }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Left returns the number of bytes that are left.
func (r *Reader) Left() int { return len(r.s) - r.at }

// More reports whether anything is left.
func (r *Reader) More() bool { return r.at < len(r.s) }

// Rest returns what is left.
func (r *Reader) Rest() []byte { return bytesOf(r.s[r.at:]) }

// End returns the error of the record, which must end here.
func (r *Reader) End() error {
	if r.More() {
		r.Malformed("bytes after the end")
	}
	return r.err
}

// Take returns the next n bytes.
func (r *Reader) Take(n int) string {
	if n > r.Left() {
		r.Fail(errTruncated)
		return ""
	}
	r.at += n
	return r.s[r.at-n : r.at]
}

// Byte returns the next byte.
func (r *Reader) Byte() byte {
	if r.at < len(r.s) {
		r.at++
		return r.s[r.at-1]
	}
	r.Fail(errTruncated)
	return 0
}

// Bool returns the next byte, which must be 0 or 1.
func (r *Reader) Bool() bool {
	v := r.Byte()
	if v > 1 {
		r.Malformed("flag is neither 0 nor 1")
	}
	return v == 1
}

// Uint32 returns the little-endian number in the next 4 bytes.
func (r *Reader) Uint32() uint32 {
	if s := r.Take(4); s != "" {
		return binary.LittleEndian.Uint32([]byte(s))
	}
	return 0
}

// Uint64 returns the little-endian number in the next 8 bytes.
func (r *Reader) Uint64() uint64 {
	if s := r.Take(8); s != "" {
		return binary.LittleEndian.Uint64([]byte(s))
	}
	return 0
}

// BigUint16 returns the big-endian number in the next 2 bytes.
func (r *Reader) BigUint16() uint16 {
	if s := r.Take(2); s != "" {
		return binary.BigEndian.Uint16([]byte(s))
	}
	return 0
}

// BigUint64 returns the big-endian number in the next 8 bytes.
func (r *Reader) BigUint64() uint64 {
	if r.Left() < 8 {
		r.Fail(errTruncated)
		return 0
	}
	r.at += 8
	return binary.BigEndian.Uint64([]byte(r.s[r.at-8 : r.at]))
}

// Uvarint returns a number of variable length.
func (r *Reader) Uvarint() uint64 {
	s := r.s[r.at:]
	if s != "" && s[0] < 0x80 { // the most common case
		r.at++
		return uint64(s[0])
	}
	var v uint64
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x80 && i < 9 {
			v |= uint64(c&0x7f) << (7 * i & 63)
			continue
		}
		if i == 9 && c > 1 || c == 0 { // it would not fit, or fewer bytes would do
			r.Malformed("varint too long")
			return 0
		}
		r.at += i + 1
		return v | uint64(c)<<(7*i&63)
	}
	r.Fail(errTruncated)
	return 0
}

// UvarintTo returns a number of variable length, which is at most most.
func (r *Reader) UvarintTo(most uint64) uint64 {
	v := r.Uvarint()
	if v > most {
		r.Malformed("number out of range")
		return 0
	}
	return v
}

// Varint returns a signed number of variable length.
func (r *Reader) Varint() int64 {
	u := r.Uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// Varint32 returns a signed number of variable length that has 32 bits.
func (r *Reader) Varint32() int32 {
	v := r.Varint()
	if v < math.MinInt32 || v > math.MaxInt32 {
		r.Malformed("number out of range")
		return 0
	}
	return int32(v)
}

// Count returns the number of following elements, each of which takes at least size bytes, so
// that a short record can't announce many.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(r.Left()/size) {
		r.Malformed("impossible count")
		return 0
	}
	return int(n)
}

// Text returns text preceded by its length.
func (r *Reader) Text() string { return r.Take(r.Count(1)) }

// Bytes returns bytes preceded by their length; nil if it is 0.
func (r *Reader) Bytes() []byte { return bytesOf(r.Text()) }

// String returns a copy of what Text returns.
func (r *Reader) String() string { return string(r.Bytes()) }

func bytesOf(s string) []byte {
	if s == "" {
		return nil
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// AppendBytes appends the length of v and v.
func AppendBytes[T string | []byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}
