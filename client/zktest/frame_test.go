package zktest

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// framed encodes a request.
func framed(xid int32, op jute.OpCode, body func([]byte) []byte) []byte {
	b, mark := jute.BeginFrame(nil)
	h := jute.RequestHeader{Xid: xid, Type: op}
	b = h.Append(b)
	if body != nil {
		b = body(b)
	}
	return jute.EndFrame(b, mark)
}

func TestParseRequest(t *testing.T) {
	create := jute.CreateRequest{Path: "/c", Mode: jute.ModePersistent, ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.WorldAnyone}}}
	multi := jute.MultiRequest{Ops: []jute.MultiOp{
		{Type: jute.OpSetData, Path: "/a", Version: -1},
		{Type: jute.OpDelete, Path: "/b", Version: -1},
	}}
	tests := []struct {
		name  string
		frame []byte
		want  request
	}{
		{"create", framed(7, jute.OpCreate, create.Append), request{7, jute.OpCreate, []string{"/c"}, false}},
		{"read", framed(8, jute.OpGetData, (&jute.PathWatchRequest{Path: "/d"}).Append), request{8, jute.OpGetData, []string{"/d"}, false}},
		{"read that watches", framed(8, jute.OpGetData, (&jute.PathWatchRequest{Path: "/d", Watch: true}).Append), request{8, jute.OpGetData, []string{"/d"}, true}},
		{"sync", framed(9, jute.OpSync, (&jute.SyncRequest{Path: "/s"}).Append), request{9, jute.OpSync, []string{"/s"}, false}},
		{"multi", framed(10, jute.OpMulti, multi.Append), request{10, jute.OpMulti, []string{"/a", "/b"}, false}},
		{"ping", framed(-2, jute.OpPing, nil), request{-2, jute.OpPing, []string{""}, false}},
		{"a close", framed(11, jute.OpCloseSession, nil), request{11, jute.OpCloseSession, []string{""}, false}},
		{"a path that is not there", framed(12, jute.OpGetData, nil), request{12, jute.OpGetData, []string{""}, false}},
		{"an unknown operation", framed(13, 999, nil), request{13, 999, []string{""}, false}},
		{"no header", []byte{0, 0, 0, 2, 1, 2}, request{0, 0, []string{""}, false}},
	}
	for _, tt := range tests {
		got := parseRequest(tt.frame)
		if got.xid != tt.want.xid || got.op != tt.want.op || !slices.Equal(got.paths, tt.want.paths) || got.watch != tt.want.watch {
			t.Errorf("%s: parseRequest(%x) = %+v, want %+v", tt.name, tt.frame, got, tt.want)
		}
	}
}

func TestSplitter(t *testing.T) {
	one, two := framed(1, jute.OpSync, nil), framed(2, jute.OpPing, nil)
	tests := []struct {
		name   string
		chunks [][]byte
		want   [][]byte
		opaque bool
	}{
		{"two in one", [][]byte{slices.Concat(one, two)}, [][]byte{one, two}, false},
		{"one in two", [][]byte{one[:3], one[3:]}, [][]byte{one}, false},
		{"an end and a begin", [][]byte{one[:5], slices.Concat(one[5:], two[:2])}, [][]byte{one}, false},
		{"an empty frame", [][]byte{{0, 0, 0, 0}}, [][]byte{{0, 0, 0, 0}}, false},
		{"a word", [][]byte{[]byte("ru"), []byte("ok")}, [][]byte{[]byte("ruok")}, true},
		{"a word and more", [][]byte{[]byte("ruok"), []byte("x")}, [][]byte{[]byte("ruok"), []byte("x")}, true},
		{"TLS", [][]byte{{0x16, 3, 1, 0, 200}}, [][]byte{{0x16, 3, 1, 0, 200}}, true},
		{"frames, then none", [][]byte{one, []byte("junk")}, [][]byte{one, []byte("junk")}, true},
	}
	for _, tt := range tests {
		var s splitter
		var got [][]byte
		for _, chunk := range tt.chunks {
			s.feed(chunk)
			for frame := s.next(); frame != nil; frame = s.next() {
				got = append(got, bytes.Clone(frame))
			}
		}
		if !slices.EqualFunc(got, tt.want, bytes.Equal) || s.opaque != tt.opaque {
			t.Errorf("%s: %x, opaque %v; want %x, %v", tt.name, got, s.opaque, tt.want, tt.opaque)
		}
	}
}

// FuzzFrames feeds a connection's bytes in two pieces. Nothing may be lost,
// changed or held back but the begin of a frame, and no frame may be misread.
func FuzzFrames(f *testing.F) {
	create := jute.CreateRequest{Path: "/c", Data: []byte("x")}
	multi := jute.MultiRequest{Ops: []jute.MultiOp{{Type: jute.OpDelete, Path: "/b", Version: -1}}}
	f.Add(slices.Concat(framed(1, jute.OpCreate, create.Append), framed(2, jute.OpMulti, multi.Append)), 9)
	f.Add(framed(-8, jute.OpSetWatches, (&jute.SetWatchesRequest{Data: []string{"/a"}}).Append), 3)
	f.Add([]byte("ruok"), 2)
	f.Add([]byte{0x10, 0, 0, 0, 1}, 1)
	f.Fuzz(func(t *testing.T, in []byte, split int) {
		split = min(max(split, 0), len(in))
		var s splitter
		var out []byte
		for _, piece := range [][]byte{in[:split], in[split:]} {
			s.feed(piece)
			for frame := s.next(); frame != nil; frame = s.next() {
				out = append(out, frame...)
				if s.opaque {
					continue
				}
				if n := binary.BigEndian.Uint32(frame); int(n) != len(frame)-4 {
					t.Fatalf("a frame of %d bytes says that it has %d", len(frame)-4, n)
				}
				parseReply(frame)
				parseConnected(frame)
				if r := parseRequest(frame); len(r.paths) == 0 {
					t.Fatalf("parseRequest(%x) gave no path", frame)
				}
			}
		}
		if !bytes.Equal(out, in[:len(out)]) {
			t.Fatalf("%x came out as %x", in, out)
		}
		if rest := in[len(out):]; len(rest) >= 4 {
			n := binary.BigEndian.Uint32(rest)
			if s.opaque || n > maxFrame || int(n) <= len(rest)-4 {
				t.Fatalf("%x was held back", rest)
			}
		}
	})
}
