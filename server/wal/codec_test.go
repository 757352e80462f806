package wal

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/fault"
	"github.com/zkd-project/zkd/jute"
)

func TestFrameRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 1000} {
		f := frame{Record: Record{Kind: Append, Type: uint8(n), Zxid: 1<<40 + 2, Prev: 1<<40 + 1, Payload: bytes.Repeat([]byte{7}, n)},
			seq: 9, durable: 5, prevCRC: 77}
		b, crc := appendFrame([]byte("12345678"), 99, &f)
		var got frame
		err := got.decode(b[8:], 99)
		f.crc, f.size = crc, frameSize(n)
		if f.Payload = f.Payload[:n:n]; err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("payload of %d: got %+v, %v, want %+v", n, got, err, f)
		}
		if err := got.decode(b[8:], 98); !errors.Is(err, errInvalid) {
			t.Errorf("a record of another segment: %v", err)
		}
	}
}

func TestSnapRefRoundTrip(t *testing.T) {
	for _, ref := range []SnapRef{
		{Zxid: 5, Name: "s"},
		{Zxid: 6, Name: strings.Repeat("n", maxSnapName), Size: 1 << 40, CRC: 9, Digest: bytes.Repeat([]byte{1}, maxDigest), Installed: true},
	} {
		r := ref.Record()
		got, err := decodeSnapRef(r.Zxid, r.Payload)
		if err != nil || !reflect.DeepEqual(got, ref) {
			t.Errorf("got %+v, %v, want %+v", got, err, ref)
		}
		st := state{ident: bytes.Repeat([]byte{2}, MaxIdent), promise: bytes.Repeat([]byte{3}, maxPromise), notes: bytes.Repeat([]byte{4}, MaxNotes),
			base: ref, baseSeq: 4, last: 9, hint: 8}
		h := header{version: 2, first: 7, prev: 5, size: headerSize, prevCRC: 3, state: st}
		gotH, err := decodeHeader(h.encode())
		if err != nil || !reflect.DeepEqual(gotH, h) {
			t.Errorf("header: got %+v, %v, want %+v", gotH, err, h)
		}
	}
}

// TestOldHeader: segments of format 1, whose states have no notes, can still be opened.
func TestOldHeader(t *testing.T) {
	h := header{version: 1, first: 7, size: headerSize, prevCRC: 3, state: state{ident: []byte("me"), promise: []byte{1}, last: 9, hint: 8}}
	got, err := decodeHeader(h.encode())
	if err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("got %+v, %v, want %+v", got, err, h)
	}
}

// FuzzFrame: no input makes the decoder panic, and decoded input encodes to the same bytes.
func FuzzFrame(f *testing.F) {
	for _, r := range []Record{
		{Kind: Append, Zxid: 2, Prev: 1, Payload: []byte("payload")},
		{Kind: Append, Type: 0x81, Zxid: 2, Prev: 1},
		{Kind: Truncate, Zxid: 1, Prev: 2},
		{Kind: Truncate, Type: 1, Zxid: 1, Prev: 2}, // refused
		SnapRef{Zxid: 1, Name: "snap"}.Record(),
		{Kind: Forget, Zxid: 1, Prev: 2},
	} {
		b, _ := appendFrame(nil, 1, &frame{Record: r, seq: 3, durable: 2})
		f.Add(b, uint32(1), false)
		f.Add(b, uint32(2), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, salt uint32, fix bool) {
		if fix && len(b) >= recordHeader { // get past the checksum
			if n, err := payloadLen(b, int64(len(b))); err == nil {
				crc := frameCRC(salt, b[:frameSize(n)])
				b = append(append(append([]byte(nil), b[:44]...), byte(crc), byte(crc>>8), byte(crc>>16), byte(crc>>24)), b[48:]...)
			}
		}
		var got frame
		err := got.decode(b, salt)
		if err != nil {
			if !errors.Is(err, errInvalid) && fault.KindOf(err) != fault.Newer {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		again, crc := appendFrame(nil, salt, &got)
		if crc != got.crc || !bytes.Equal(again, b[:got.size]) {
			t.Fatalf("%x decodes to %+v and encodes to %x", b, got, again)
		}
		if got.Kind == Snapshot {
			if ref, err := decodeSnapRef(got.Zxid, got.Payload); err == nil && !bytes.Equal(ref.Record().Payload, got.Payload) {
				t.Fatalf("%x decodes to %+v", got.Payload, ref)
			}
		}
		var st state
		_ = st.apply(&got.Record, got.seq) // must not panic
	})
}

// FuzzHeader is FuzzFrame for the header of a segment.
func FuzzHeader(f *testing.F) {
	h := header{version: 2, first: 7, prev: 5, size: 1 << 20, prevCRC: 3, state: state{ident: []byte("me"), last: 9, hint: 8}}
	f.Add(h.encode(), false)
	h.version, h.prev = 1, 0
	f.Add(h.encode(), false)
	h.state.promise = []byte("promise")
	h.state.base, h.state.baseSeq = SnapRef{Zxid: 4, Name: "snap", Digest: []byte{1}}, 3
	f.Add(h.encode(), true)
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if fix && len(b) == headerSize {
			b = append(append([]byte(nil), b[:headerCRC]...), crc32cOf(b[:headerCRC])...)
		}
		got, err := decodeHeader(b)
		if err != nil {
			if !errors.Is(err, errInvalid) && fault.KindOf(err) != fault.Newer {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		if again := got.encode(); !bytes.Equal(again, b) {
			t.Fatalf("header %+v encodes differently", got)
		}
	})
}

func TestStateRefuses(t *testing.T) {
	st := state{last: 10, hint: 5, base: SnapRef{Zxid: 4, Name: "s"}}
	tests := []struct {
		name string
		r    Record
		want error
	}{
		{"a gap", Record{Kind: Append, Zxid: 12, Prev: 11}, ErrDiscontinuous},
		{"no progress", Record{Kind: Append, Zxid: 10, Prev: 10}, ErrDiscontinuous},
		{"a truncation into the snapshot", Record{Kind: Truncate, Zxid: 3, Prev: 10}, ErrDiscontinuous},
		{"a truncation ahead", Record{Kind: Truncate, Zxid: 11, Prev: 10}, ErrDiscontinuous},
		{"a truncation of what is committed", Record{Kind: Truncate, Zxid: 4}, ErrDiscontinuous},
		{"another's snapshot of less than is committed", SnapRef{Zxid: 4, Name: "x", Installed: true}.Record(), ErrDiscontinuous},
		{"a snapshot ahead", SnapRef{Zxid: 11, Name: "x"}.Record(), ErrDiscontinuous},
		{"a snapshot before the last one, which has no effect", SnapRef{Zxid: 3, Name: "x"}.Record(), nil},
		{"a snapshot without a name", SnapRef{Zxid: 5}.Record(), errInvalid},
		{"a hint ahead", Record{Kind: CommitHint, Zxid: 11}, ErrDiscontinuous},
		{"nothing to remember", Record{Kind: Forget, Zxid: 5}, ErrDiscontinuous},
		{"a huge identity", Record{Kind: Ident, Payload: make([]byte, MaxIdent+1)}, ErrTooLarge},
		{"huge notes", Record{Kind: Notes, Payload: make([]byte, MaxNotes+1)}, ErrTooLarge},
		{"a huge promise", Record{Kind: Promise, Payload: make([]byte, maxPromise+1)}, ErrTooLarge},
		{"an unknown kind", Record{Kind: 99}, errInvalid},
	}
	for _, tt := range tests {
		if tt.r.Kind != Append {
			tt.r.Prev = jute.Zxid(10)
		}
		got := st
		if err := got.apply(&tt.r, 1); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if !reflect.DeepEqual(got, st) {
			t.Errorf("%s: the state changed to %+v", tt.name, got)
		}
	}
}
