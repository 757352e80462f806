package snapshot

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"testing"
)

// nodes yields n nodes of about 200 bytes, in the order of a tree with 1000
// children per parent.
func nodes(n int) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		var key []byte
		value := make([]byte, 172)
		for i := range n {
			key = fmt.Appendf(key[:0], "\x00app\x00parent-%04d\x00node-%05d", i/1000, i%1000)
			binary.BigEndian.PutUint64(value, uint64(i)*0x9e3779b97f4a7c15)
			if !yield(key, value) {
				return
			}
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	b.ReportAllocs()
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		ref, err := s.Write(b.Context(), Meta{Zxid: 7}, Section{Name: "nodes", Items: nodes(1_000_000)})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(ref.Size), "file-bytes")
		if err := s.Remove(ref.Name); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	ref, err := s.Write(b.Context(), Meta{Zxid: 7}, Section{Name: "nodes", Items: nodes(1_000_000)})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(ref.Size)
	for b.Loop() {
		n := 0
		if _, err := s.Load(b.Context(), ref, func(string, []byte, []byte) error { n++; return nil }); err != nil {
			b.Fatal(err)
		}
		if n != 1_000_000 {
			b.Fatal(n)
		}
	}
}

// BenchmarkReceive receives a snapshot of 200,000 nodes, in pieces of 64 KiB as io.Copy
// delivers them.
func BenchmarkReceive(b *testing.B) {
	from := sentSnapshot(b, 7, 200_000)
	s := open(b, Options{})
	b.SetBytes(from.ref.Size)
	b.ReportAllocs()
	for b.Loop() {
		r, err := s.Receive(from.ref)
		if err != nil {
			b.Fatal(err)
		}
		for piece := range slices.Chunk(from.file, 64<<10) {
			if _, err := r.Write(piece); err != nil {
				b.Fatal(err)
			}
		}
		ref, err := r.Finish(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Remove(ref.Name); err != nil {
			b.Fatal(err)
		}
	}
}
