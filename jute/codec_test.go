package jute

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

func TestNullAndEmpty(t *testing.T) {
	d := NewDecoder([]byte("\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00"))
	if b := d.Buffer(); b != nil {
		t.Errorf("null buffer is %q, want nil", b)
	}
	if b := d.Buffer(); b == nil || len(b) > 0 {
		t.Errorf("empty buffer is %#v, want an empty slice", b)
	}
	if s, ok := d.NullString(); s != "" || ok {
		t.Errorf("null string is %q, %v", s, ok)
	}
	if s, ok := d.NullString(); s != "" || !ok {
		t.Errorf("empty string is %q, %v", s, ok)
	}
	if got := fmt.Sprintf("%x", AppendBuffer(AppendBuffer(nil, nil), []byte{})); got != "ffffffff00000000" {
		t.Errorf("null and empty buffer encode to %s", got)
	}
}

// TestDecoderErrors checks that each input makes the decoder fail with the given error,
// which a reply shows as ErrMarshalling.
func TestDecoderErrors(t *testing.T) {
	cases := []struct {
		name string
		in   string
		read func(d *Decoder)
		want error
	}{
		{"nothing for a bool", "", func(d *Decoder) { d.Bool() }, ErrTruncated},
		{"3 bytes for an int", "\x00\x00\x00", func(d *Decoder) { d.Int32() }, ErrTruncated},
		{"7 bytes for a long", "\x00\x00\x00\x00\x00\x00\x00", func(d *Decoder) { d.Int64() }, ErrTruncated},
		{"buffer beyond the end", "\x00\x00\x00\x02a", func(d *Decoder) { d.Buffer() }, ErrLength},
		{"buffer of 2 GiB", "\x7f\xff\xff\xffa", func(d *Decoder) { d.Buffer() }, ErrLength},
		{"buffer of -2 bytes", "\xff\xff\xff\xfe", func(d *Decoder) { d.Buffer() }, ErrLength},
		{"string of -2 bytes", "\xff\xff\xff\xfe", func(d *Decoder) { _ = d.String() }, ErrLength},
		{"vector of 2^31-1 elements", "\x7f\xff\xff\xff\x00\x00\x00\x00", func(d *Decoder) { d.Strings() }, ErrLength},
		{"ACL of 2 with room for 1", "\x00\x00\x00\x02" + string(make([]byte, 23)), func(d *Decoder) { d.ACLs() }, ErrLength},
		{"null path", "\xff\xff\xff\xff\x00", func(d *Decoder) { new(PathWatchRequest).Decode(d) }, ErrNull},
		{"null path of a create", "\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00",
			func(d *Decoder) { new(CreateRequest).Decode(d) }, ErrNull},
		{"null list in setWatches", "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00",
			func(d *Decoder) { new(SetWatchesRequest).Decode(d) }, ErrNull},
		{"addWatch mode 2", "\x00\x00\x00\x01/\x00\x00\x00\x02", func(d *Decoder) { new(AddWatchRequest).Decode(d) }, ErrMarshalling},
		{"watch type 0", "\x00\x00\x00\x01/\x00\x00\x00\x00", func(d *Decoder) { new(RemoveWatchesRequest).Decode(d) }, ErrMarshalling},
		{"watch type 6", "\x00\x00\x00\x01/\x00\x00\x00\x06", func(d *Decoder) { new(RemoveWatchesRequest).Decode(d) }, ErrMarshalling},
	}
	for _, c := range cases {
		d := NewDecoder([]byte(c.in))
		c.read(&d)
		if !errors.Is(d.Err(), c.want) || CodeOf(d.Err()) != ErrMarshalling {
			t.Errorf("%s: error %v, want %v", c.name, d.Err(), c.want)
		}
	}
}

// TestNegativeCount checks that a vector with a count below -1 is empty, as in Apache's
// jute, which differs from null.
func TestNegativeCount(t *testing.T) {
	for _, in := range []string{"\xff\xff\xff\xfe\x07", "\x80\x00\x00\x00\x07"} {
		d := NewDecoder([]byte(in))
		if list := d.notNullStrings(); len(list) != 0 || d.Err() != nil || string(d.Rest()) != "\x07" {
			t.Errorf("%x: list %q, error %v, rest %x; want an empty list and the rest 07", in, list, d.Err(), d.Rest())
		}
	}
}

// TestDecoderFirstError checks that after an error the decoder reads zeros and keeps the
// error.
func TestDecoderFirstError(t *testing.T) {
	d := NewDecoder([]byte("\xff\xff\xff\xfe\x00\x00\x00\x07"))
	d.Buffer()
	first := d.Err()
	if v := d.Int32(); v != 0 || d.Err() != first || len(d.Rest()) != 0 {
		t.Errorf("after the error: read %d, error %v, rest %q", v, d.Err(), d.Rest())
	}
}

func TestAliasDecoder(t *testing.T) {
	in := []byte("\x00\x00\x00\x03abc\x00\x00\x00\x03abc")
	d, c := NewAliasDecoder(in), NewDecoder(in)
	shared, sharedText := d.Buffer(), d.String()
	copied, copiedText := c.Buffer(), c.String()
	in[4], in[11] = 'x', 'x'
	if string(shared) != "xbc" || sharedText != "xbc" {
		t.Errorf("aliased buffer %q and string %q, want the changed memory", shared, sharedText)
	}
	if string(copied) != "abc" || copiedText != "abc" {
		t.Errorf("copied buffer %q and string %q changed with the input", copied, copiedText)
	}
	if _ = append(shared, '!'); in[7] == '!' {
		t.Error("append to an aliased buffer wrote into the input")
	}
}

func TestFrame(t *testing.T) {
	b, mark := BeginFrame([]byte("before"))
	ping := RequestHeader{XidPing, OpPing}
	b = EndFrame(ping.Append(b), mark)
	b, mark = BeginFrame(b)
	b = EndFrame(b, mark)
	if want := "before\x00\x00\x00\x08\xff\xff\xff\xfe\x00\x00\x00\x0b\x00\x00\x00\x00"; string(b) != want {
		t.Errorf("frames are %q, want %q", b, want)
	}
}

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Code
	}{
		{nil, 0},
		{ErrNoNode, ErrNoNode},
		{fmt.Errorf("delete /a: %w", ErrBadVersion), ErrBadVersion},
		{errors.New("disk on fire"), ErrSystemError},
		{ErrTruncated, ErrMarshalling},
	} {
		if got := CodeOf(c.err); got != c.want {
			t.Errorf("CodeOf(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

func TestOwner(t *testing.T) {
	cases := []struct {
		name      string
		owner     Owner
		session   SessionID
		ttl       int64
		container bool
	}{
		{"none", OwnerNone, 0, 0, false},
		{"session", OwnerSession(0x100000a323e0013), 0x100000a323e0013, 0, false},
		{"session of server 254", OwnerSession(-0x1fffffffffffffe), -0x1fffffffffffffe, 0, false},
		{"container", OwnerContainer, 0, 0, true},
		{"TTL of 1 ms", OwnerTTL(1), 0, 1, false},
		{"largest TTL", OwnerTTL(MaxTTL), 0, MaxTTL, false},
	}
	for _, c := range cases {
		ttl, isTTL := c.owner.TTL()
		if c.owner.Session() != c.session || ttl != c.ttl || isTTL != (c.ttl > 0) || c.owner.Container() != c.container {
			t.Errorf("%s (%#x): session %v, TTL %d, container %v", c.name, uint64(c.owner), c.owner.Session(), ttl, c.owner.Container())
		}
	}
}

// TestStatLayout checks that Pzxid is last, after NumChildren.
func TestStatLayout(t *testing.T) {
	s := Stat{Czxid: 1, Mzxid: 2, Ctime: 3, Mtime: 4, Version: 5, Cversion: 6, Aversion: 7,
		EphemeralOwner: 8, DataLength: 9, NumChildren: 10, Pzxid: 11}
	b := s.Append(nil)
	want := bytes.Join([][]byte{{0, 0, 0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 0, 0, 2}, {0, 0, 0, 0, 0, 0, 0, 3},
		{0, 0, 0, 0, 0, 0, 0, 4}, {0, 0, 0, 5}, {0, 0, 0, 6}, {0, 0, 0, 7}, {0, 0, 0, 0, 0, 0, 0, 8},
		{0, 0, 0, 9}, {0, 0, 0, 10}, {0, 0, 0, 0, 0, 0, 0, 11}}, nil)
	if !bytes.Equal(b, want) || len(b) != StatLen {
		t.Errorf("%+v encodes to\n%x, want\n%x", s, b, want)
	}
}
