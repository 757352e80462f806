package jute

import (
	"math/rand/v2"
	"testing"
)

// TestAppendAllocs checks that no record allocates when the slice has room.
func TestAppendAllocs(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	buf := make([]byte, 0, 1<<16)
	for _, make := range makers {
		r := make()
		example(r, rng)
		if n := testing.AllocsPerRun(20, func() {
			b, mark := BeginFrame(buf)
			EndFrame(r.Append(b), mark)
		}); n != 0 {
			t.Errorf("%T: %v allocations to encode, want 0", r, n)
		}
	}
}

// TestReadPathAllocs checks that a read request is decoded and answered without garbage.
func TestReadPathAllocs(t *testing.T) {
	header, request := RequestHeader{7, OpGetData}, PathWatchRequest{Path: "/services/orders/leader"}
	frame := request.Append(header.Append(nil))
	data, out := make([]byte, 1024), make([]byte, 0, 2048)
	if n := testing.AllocsPerRun(100, func() {
		out = serveRead(frame, data, out[:0])
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func serveRead(frame, data, out []byte) []byte {
	var header RequestHeader
	var request PathWatchRequest
	d := NewAliasDecoder(frame)
	header.Decode(&d)
	request.Decode(&d)
	if d.Err() != nil || request.Path == "" {
		panic("request not decoded")
	}
	reply := ReplyHeader{Xid: header.Xid, Zxid: 9}
	response := GetDataResponse{Data: data}
	out, mark := BeginFrame(out)
	return EndFrame(response.Append(reply.Append(out)), mark)
}

func BenchmarkServeRead(b *testing.B) {
	header, request := RequestHeader{7, OpGetData}, PathWatchRequest{Path: "/services/orders/leader"}
	frame := request.Append(header.Append(nil))
	data, out := make([]byte, 1024), make([]byte, 0, 2048)
	b.ReportAllocs()
	b.SetBytes(int64(len(frame) + len(data)))
	for b.Loop() {
		out = serveRead(frame, data, out[:0])
	}
}

func BenchmarkDecodeCreate(b *testing.B) {
	r := CreateRequest{Path: "/services/orders/leader", Data: make([]byte, 1024), ACL: []ACL{{PermAll, WorldAnyone}}}
	frame := r.Append(nil)
	b.ReportAllocs()
	b.SetBytes(int64(len(frame)))
	for b.Loop() {
		d := NewDecoder(frame)
		r.Decode(&d)
	}
}

func BenchmarkValidatePath(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if ValidatePath("/services/orders/leader-0000000042") != nil {
			b.Fatal("valid path refused")
		}
	}
}
