package wal

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/crashfs"
	"github.com/zkd-project/zkd/internal/vfs"
	"github.com/zkd-project/zkd/jute"
)

// TestAppendAllocates checks that appending does not allocate per record: 100 records of 1
// KiB cost at most an occasional allocation.
func TestAppendAllocates(t *testing.T) {
	l, _ := mustOpen(t, Options{Dir: t.TempDir(), NoSync: true})
	defer l.Close()
	batch := make([]Record, 100)
	payload := make([]byte, 1024)
	n := testing.AllocsPerRun(100, func() {
		fill(batch, l.LastZxid(), payload)
		if err := l.Append(batch); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Sync(); err != nil {
			t.Fatal(err)
		}
	})
	if n > 2 { // rolls and index growth, spread over the runs
		t.Errorf("%v allocations for %d records", n, len(batch))
	}
}

func fill(batch []Record, last jute.Zxid, payload []byte) {
	for i := range batch {
		batch[i] = Record{Kind: Append, Zxid: last + 1, Prev: last, Payload: payload}
		last++
	}
}

// BenchmarkEncode measures encoding a record of 1 KiB without writing it.
func BenchmarkEncode(b *testing.B) {
	f := frame{Record: Record{Kind: Append, Zxid: 2, Prev: 1, Payload: make([]byte, 1024)}, seq: 2}
	var buf []byte
	b.SetBytes(1024)
	b.ReportAllocs()
	for b.Loop() {
		buf, f.prevCRC = appendFrame(buf[:0], 1, &f)
	}
}

// BenchmarkAppend measures encoding and writing, without any fsync.
func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d/size=1k", n), func(b *testing.B) {
			l, _ := mustOpen(b, Options{Dir: b.TempDir(), NoSync: true, SegmentSize: 16 << 20})
			defer l.Close()
			batch := make([]Record, n)
			payload := make([]byte, 1024)
			b.SetBytes(int64(n) * 1024)
			b.ReportAllocs()
			for b.Loop() {
				fill(batch, l.LastZxid(), payload)
				if err := l.Append(batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
			trim(b, l)
		})
	}
}

// trim frees the disk space of a benchmark.
func trim(b *testing.B, l *Log) {
	b.Helper()
	ref := SnapRef{Zxid: l.LastZxid(), Name: "end"}
	if err := l.AppendSnapRef(ref); err != nil {
		b.Fatal(err)
	}
	if _, err := l.Purge(b.Context(), ref.Zxid); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWriter measures durable entries of 1 KiB through a Writer, with several callers
// that each wait for their own entry.
func BenchmarkWriter(b *testing.B) {
	for _, callers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("callers=%d/size=1k", callers), func(b *testing.B) {
			l, _ := mustOpen(b, Options{Dir: b.TempDir()})
			w := NewWriter(l, WriterOptions{})
			payload := make([]byte, 1024)
			var mu sync.Mutex // zxids in the order of submission
			var last jute.Zxid
			var wg sync.WaitGroup
			per := max(1, b.N/callers)
			b.ReportAllocs()
			b.SetBytes(1024)
			b.ResetTimer()
			for range callers {
				wg.Go(func() {
					for range per {
						mu.Lock()
						last++
						seq, err := w.Submit(Record{Kind: Append, Zxid: last, Prev: last - 1, Payload: payload})
						mu.Unlock()
						if err == nil {
							err = w.waitFor(seq)
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			s := w.Stats()
			b.ReportMetric(float64(s.Records)/float64(s.Fsyncs), "records/fsync")
			b.ReportMetric(float64(s.FsyncTotal.Microseconds())/float64(s.Fsyncs), "µs/fsync")
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkColdStart measures a restart with a million entries of 300 bytes: reading and
// checking the log, and replaying it. The log is in the page cache.
func BenchmarkColdStart(b *testing.B) {
	const entries = 1_000_000
	o := Options{Dir: b.TempDir(), NoSync: true}
	l, _ := mustOpen(b, o)
	batch := make([]Record, 1000)
	payload := make([]byte, 300)
	for i := range payload {
		payload[i] = byte(i)
	}
	for range entries / len(batch) {
		fill(batch, l.LastZxid(), payload)
		if err := l.Append(batch); err != nil {
			b.Fatal(err)
		}
		_, _ = l.Sync()
		if err := l.PrepareSpare(); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("open", func(b *testing.B) {
		b.SetBytes(entries * int64(frameSize(len(payload))))
		b.ReportAllocs()
		for b.Loop() {
			l, rec := mustOpen(b, o)
			if rec.LastZxid != entries {
				b.Fatal(rec.LastZxid)
			}
			_ = l.Close()
		}
	})
	b.Run("replay", func(b *testing.B) {
		l, _ := mustOpen(b, o)
		defer l.Close()
		b.SetBytes(entries * int64(frameSize(len(payload))))
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			if err := l.Replay(0, func(Record) error { n++; return nil }); err != nil || n != entries {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("reader", func(b *testing.B) {
		l, _ := mustOpen(b, o)
		defer l.Close()
		b.SetBytes(entries * int64(frameSize(len(payload))))
		b.ReportAllocs()
		for b.Loop() {
			r, err := l.NewReader(0)
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			for {
				records, err := r.Next(1 << 20)
				if err != nil {
					b.Fatal(err)
				}
				if len(records) == 0 {
					break
				}
				n += len(records)
			}
			if n != entries {
				b.Fatal(n)
			}
			_ = r.Close()
		}
	})
}

// BenchmarkOpenEmpty measures the first start of a server.
func BenchmarkOpenEmpty(b *testing.B) {
	dir, i := b.TempDir(), 0
	for b.Loop() {
		l, _ := mustOpen(b, Options{Dir: filepath.Join(dir, fmt.Sprint(i))})
		_ = l.Close()
		i++
	}
}

// BenchmarkSync shows why segments are zeroed in advance: it measures one write of 4 KiB
// and an fdatasync, on a file of written zeros, on one only extended, and on one that
// grows.
func BenchmarkSync(b *testing.B) {
	const size = 64 << 20
	for _, kind := range []string{"zeroed", "sparse", "growing"} {
		b.Run(kind, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "f")
			var f vfs.File
			var err error
			if kind == "zeroed" {
				f, err = zeroFile(vfs.OS{}, path, size, func() bool { return false })
			} else if f, err = (vfs.OS{}).Create(path); err == nil && kind == "sparse" {
				err = f.Truncate(size)
			}
			if err == nil {
				err = f.Sync()
			}
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			block := make([]byte, 4096)
			off := int64(0)
			for b.Loop() {
				if _, err := f.WriteAt(block, off%size); err != nil {
					b.Fatal(err)
				}
				if err := f.SyncData(); err != nil {
					b.Fatal(err)
				}
				off += int64(len(block))
			}
		})
	}
}

// BenchmarkSimulated measures what a simulator does millions of times, on a disk in memory:
// fifty small synced batches, a power cut, and recovery.
func BenchmarkSimulated(b *testing.B) {
	for _, size := range []int64{16 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("segment=%dk", size>>10), func(b *testing.B) {
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
					if _, err := l.Purge(b.Context(), rec.LastZxid); err != nil {
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
