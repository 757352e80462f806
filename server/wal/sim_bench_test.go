package wal

import (
	"math/rand/v2"
	"testing"

	"github.com/zkd-project/zkd/internal/crashfs"
)

// BenchmarkSimulated is what a simulator does millions of times, on a disk in
// memory: fifty small synced batches, a power cut, and recovery.
func BenchmarkSimulated(b *testing.B) {
	for _, size := range []int64{16 << 10, 256 << 10} {
		b.Run("segment="+map[int64]string{16 << 10: "16k", 256 << 10: "256k"}[size], func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			payload := make([]byte, 100)
			fsys := crashfs.New(1)
			o := testOptions(fsys)
			o.SegmentSize = size
			batch := make([]Record, 3)
			b.ReportAllocs()
			for b.Loop() {
				o.FS = fsys
				l, rec := mustOpen(b, o)
				if rec.LastZxid > 1000 {
					mustAppend(b, l, SnapRef{Zxid: rec.LastZxid, Name: "s"}.Record())
					if _, err := l.Purge(rec.LastZxid); err != nil {
						b.Fatal(err)
					}
				}
				for range 50 {
					fill(batch, l.LastZxid(), payload)
					mustAppend(b, l, batch...)
				}
				fsys = fsys.Crash(rng)
			}
		})
	}
}
