package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
)

func TestReader(t *testing.T) {
	b := []byte{7, 1}
	b = binary.LittleEndian.AppendUint32(b, 8)
	b = binary.LittleEndian.AppendUint64(b, 9)
	b = binary.BigEndian.AppendUint16(b, 10)
	b = binary.BigEndian.AppendUint64(b, 11)
	b = binary.AppendUvarint(b, math.MaxUint64)
	b = binary.AppendVarint(b, math.MinInt64)
	b = binary.AppendVarint(b, math.MinInt32)
	b = AppendBytes(AppendBytes(AppendBytes(b, "text"), "copy"), "")
	const want = "7 true 8 9 10 11 18446744073709551615 -9223372036854775808 -2147483648 text copy true"
	read := func(b []byte) (string, error) {
		r := NewReader(b)
		got := fmt.Sprint(r.Byte(), r.Bool(), r.Uint32(), r.Uint64(), r.BigUint16(), r.BigUint64(), r.Uvarint(), r.Varint(), r.Varint32(), " ", r.Text(), " ", r.String(), " ", r.Bytes() == nil)
		return got, r.End()
	}
	if got, err := read(b); got != want || err != nil {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	for n := range b {
		if _, err := read(b[:n]); !errors.Is(err, ErrMalformed) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	if _, err := read(append(b, 0)); !errors.Is(err, ErrMalformed) {
		t.Errorf("one more byte: %v", err)
	}
}

// After an error nothing more is read, and the first error stays.
func TestMalformed(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []byte
		read func(*Reader) any
		zero any
	}{
		{"longer varint than needed", []byte{0x80, 0, 1}, func(r *Reader) any { return r.Uvarint() }, uint64(0)},
		{"varint of 65 bits", []byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 2, 1}, func(r *Reader) any { return r.Uvarint() }, uint64(0)},
		{"33 bits", binary.AppendVarint(nil, math.MaxInt32+1), func(r *Reader) any { return r.Varint32() }, int32(0)},
		{"above the most", []byte{5, 1}, func(r *Reader) any { return r.UvarintTo(4) }, uint64(0)},
		{"flag", []byte{2, 1}, func(r *Reader) any { return r.Bool() }, false},
		{"more elements than bytes", []byte{3, 1, 1, 1, 1, 1}, func(r *Reader) any { return r.Count(2) }, 0},
		{"more text than bytes", []byte{3, 1, 1}, func(r *Reader) any { return r.Text() }, ""},
	} {
		r := NewReader(tt.in)
		if got := tt.read(&r); got != tt.zero || !errors.Is(r.Err(), ErrMalformed) || r.More() || r.Byte() != 0 {
			t.Errorf("%s: %v, %v, %d bytes left", tt.name, got, r.Err(), r.Left())
		}
	}
	mine, r := errors.New("mine"), NewStringReader("x")
	r.Fail(mine)
	if r.Malformed("later"); r.End() != mine {
		t.Errorf("the error is %v", r.End())
	}
}

// A varint is read as by encoding/binary if it is in its shortest form, and not otherwise.
func FuzzUvarint(f *testing.F) {
	for _, v := range []uint64{0, 127, 128, math.MaxInt64, math.MaxUint64} {
		f.Add(binary.AppendUvarint(nil, v))
	}
	f.Add([]byte{0x80})
	f.Add([]byte{0x80, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		want, n := binary.Uvarint(b)
		shortest := n > 0 && bytes.Equal(binary.AppendUvarint(nil, want), b[:n])
		r := NewReader(b)
		if got := r.Uvarint(); shortest != (r.Err() == nil) || shortest && (got != want || r.Left() != len(b)-n) {
			t.Errorf("%x: %d, %v, %d bytes left; want %d of %d bytes", b, got, r.Err(), r.Left(), want, n)
		}
	})
}
