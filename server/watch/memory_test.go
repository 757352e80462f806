package watch

import (
	"fmt"
	"runtime"
	"testing"
)

// shapes are two extremes of n watches.
var shapes = []struct {
	name string
	fill func(n int, add func(w Watcher, path int))
}{
	{"each watcher has 100 paths of its own", func(n int, add func(Watcher, int)) {
		for i := range n {
			add(Watcher(i%(n/100)), i)
		}
	}},
	{"all watchers have the same 100 paths", func(n int, add func(Watcher, int)) {
		for i := range n {
			add(Watcher(i/100), i%100)
		}
	}},
}

// fill returns a table of n data watches, whose paths are in a frame buffer.
func fill(shape, n int) *Table {
	table, frame := New(), make([]byte, 0, 32)
	shapes[shape].fill(n, func(w Watcher, path int) {
		withAlias(appendPath(frame, path), func(path string) { table.Add(w, path, Data) })
	})
	return table
}

// appendPath appends a path of 28 bytes.
func appendPath(b []byte, i int) []byte { return fmt.Appendf(b, "/services/registry/n%08d", i) }

func pathOf(i int) string { return string(appendPath(nil, i)) }

// TestAccount compares the table's account of its memory with the heap, and checks that nothing is left of it.
func TestAccount(t *testing.T) {
	const n = 100_000
	for i, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			before := heap()
			table := fill(i, n)
			used := heap() - before
			if got := table.Memory(); got < used*8/10 || got > used*3 {
				t.Errorf("the account is %d bytes, the heap has %d", got, used)
			}
			for w := range n {
				table.Drop(Watcher(w))
			}
			if got := table.Memory(); got != 0 {
				t.Errorf("%d bytes are left of no watch", got)
			}
		})
	}
}

// TestMemory checks that a watch takes at most 90 bytes of heap, all included. There are
// a quarter of a million: as for the million of BenchmarkMemory, the indexes have just
// doubled, so that this is about the worst number.
func TestMemory(t *testing.T) {
	const n, limit = 250_000, 90
	for i, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			if got := bytesPerWatch(i, n); got > limit {
				t.Errorf("a watch takes %.1f bytes, want at most %d", got, limit)
			}
		})
	}
}

func BenchmarkMemory(b *testing.B) {
	const n = 1_000_000
	for i, shape := range shapes {
		b.Run(shape.name, func(b *testing.B) {
			var bytes float64
			for b.Loop() {
				bytes = bytesPerWatch(i, n)
			}
			b.ReportMetric(bytes, "B/watch")
			b.ReportMetric(bytes*n/1e6, "MB")
		})
	}
}

func bytesPerWatch(shape, n int) float64 {
	before := heap()
	table := fill(shape, n)
	used := heap() - before
	runtime.KeepAlive(table)
	return float64(used) / float64(n)
}

// heap returns the bytes of the spans in use after a collection: the cost of the live
// objects with all rounding.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}
