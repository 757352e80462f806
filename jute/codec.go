package jute

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
	"unsafe"
)

// The errors of a [Decoder]. Each wraps ErrMarshalling, so [CodeOf] returns the code for
// the reply to an undecodable request.
var (
	// ErrTruncated means that the input ends before the record does.
	ErrTruncated = fmt.Errorf("input ends inside the record: %w", ErrMarshalling)
	// ErrLength is wrapped by errors about a length or count that is negative
	// or larger than the rest of the input.
	ErrLength = fmt.Errorf("impossible length: %w", ErrMarshalling)
	// ErrNull means that a string or vector is null but must not be.
	ErrNull = fmt.Errorf("null where a value is needed: %w", ErrMarshalling)
)

// AppendBool appends v as one byte.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendInt32 appends v as four bytes.
func AppendInt32[T ~int32](b []byte, v T) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendInt64 appends v as eight bytes.
func AppendInt64[T ~int64](b []byte, v T) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// AppendBuffer appends a buffer: nil is encoded as null, which differs from empty.
func AppendBuffer(b, v []byte) []byte {
	if v == nil {
		return AppendInt32(b, int32(-1))
	}
	return append(AppendInt32(b, int32(len(v))), v...)
}

// AppendString appends a ustring. A Go string is never null.
func AppendString(b []byte, v string) []byte {
	return append(AppendInt32(b, int32(len(v))), v...)
}

// AppendStrings appends a vector of ustrings. A nil slice is an empty vector.
func AppendStrings(b []byte, v []string) []byte {
	b = AppendInt32(b, int32(len(v)))
	for _, s := range v {
		b = AppendString(b, s)
	}
	return b
}

// Decoder reads primitives from a byte slice. After the first error all reads
// return zero values and Err returns that error.
type Decoder struct {
	buf   []byte
	err   error
	alias bool
}

// NewDecoder returns a decoder of b whose buffers and strings are copies.
func NewDecoder(b []byte) Decoder { return Decoder{buf: b} }

// NewAliasDecoder returns a decoder of b whose buffers and strings may share b's memory: they
// are valid only while b is unchanged.
func NewAliasDecoder(b []byte) Decoder { return Decoder{buf: b, alias: true} }

// Err returns the first error, or nil.
func (d *Decoder) Err() error { return d.err }

// Rest returns the bytes not read yet, sharing the input's memory.
func (d *Decoder) Rest() []byte { return d.buf }

// Fail makes err the decoder's error unless it already has one.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err = err
		d.buf = nil
	}
}

// next consumes n bytes, or fails.
func (d *Decoder) next(n int) []byte {
	if n > len(d.buf) {
		d.Fail(ErrTruncated)
		return nil
	}
	b := d.buf[:n:n]
	d.buf = d.buf[n:]
	return b
}

// Bool reads one byte; any value except zero is true.
func (d *Decoder) Bool() bool {
	b := d.next(1)
	return b != nil && b[0] != 0
}

// Int32 reads four bytes.
func (d *Decoder) Int32() int32 {
	b := d.next(4)
	if b == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

// Int64 reads eight bytes.
func (d *Decoder) Int64() int64 {
	b := d.next(8)
	if b == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

// length reads the length of a buffer or string; -1 is null.
func (d *Decoder) length() (n int, null bool) {
	v := d.Int32()
	switch {
	case d.err != nil || v == -1:
		return 0, true
	case v < 0 || int(v) > len(d.buf):
		d.Fail(fmt.Errorf("%w: %d bytes with %d left", ErrLength, v, len(d.buf)))
		return 0, true
	}
	return int(v), false
}

// nextIsNull reports whether the next buffer, string or vector is null.
func (d *Decoder) nextIsNull() bool {
	return len(d.buf) >= 4 && binary.BigEndian.Uint32(d.buf) == math.MaxUint32
}

// Buffer reads a buffer. It returns nil for null and a non-nil slice for empty.
func (d *Decoder) Buffer() []byte {
	n, null := d.length()
	if null {
		return nil
	}
	b := d.next(n)
	if d.alias {
		return b
	}
	return append(make([]byte, 0, n), b...)
}

// String reads a ustring, as Text. It returns "" for null.
func (d *Decoder) String() string {
	s, _ := d.NullString()
	return s
}

// NullString reads a ustring, as Text. ok is false if it is null.
func (d *Decoder) NullString() (s string, ok bool) {
	n, null := d.length()
	if null {
		return "", false
	}
	return d.text(d.next(n)), true
}

// text returns the text of bytes of the input.
func (d *Decoder) text(b []byte) string {
	if d.alias && len(b) > 0 && utf8.Valid(b) {
		return unsafe.String(&b[0], len(b))
	}
	return Text(b)
}

// stringOr reads a ustring; if it equals known, it returns known itself.
func (d *Decoder) stringOr(known string) string {
	n, _ := d.length()
	b := d.next(n)
	if string(b) == known {
		return known
	}
	return d.text(b)
}

// Count reads the count of a vector whose elements have at least elemSize bytes each, so
// that an impossible count fails before the caller allocates for it. Null returns (0,
// false). A count below -1 means an empty vector, as in Apache's jute.
func (d *Decoder) Count(elemSize int) (n int, ok bool) {
	v := d.Int32()
	switch {
	case d.err != nil || v == -1:
		return 0, false
	case int(v) > len(d.buf)/elemSize:
		d.Fail(fmt.Errorf("%w: %d elements with %d bytes left", ErrLength, v, len(d.buf)))
		return 0, false
	}
	return int(max(v, 0)), true
}

// Strings reads a vector of ustrings. It returns nil for both null and empty.
func (d *Decoder) Strings() []string {
	n, _ := d.Count(4)
	return d.strings(n, (*Decoder).String)
}

// strings reads n ustrings.
func (d *Decoder) strings(n int, next func(*Decoder) string) []string {
	if n == 0 {
		return nil
	}
	v := make([]string, n)
	for i := range v {
		v[i] = next(d)
	}
	if d.err != nil {
		return nil
	}
	return v
}

// notNull reads a ustring that must not be null.
func (d *Decoder) notNull() string {
	s, ok := d.NullString()
	if !ok {
		d.Fail(ErrNull)
	}
	return s
}

// notNullStrings reads a vector that must not be null or contain null.
func (d *Decoder) notNullStrings() []string {
	n, ok := d.Count(4)
	if !ok {
		d.Fail(ErrNull)
	}
	return d.strings(n, (*Decoder).notNull)
}

// failValue fails because an enumeration has no such value.
func (d *Decoder) failValue(what string, v int32) {
	d.Fail(fmt.Errorf("%s %d: %w", what, v, ErrMarshalling))
}
