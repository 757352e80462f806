package watch

import (
	"fmt"
	"runtime"
	"testing"
)

// shapes are the two extremes of a million watches.
var shapes = []struct {
	name string
	fill func(add func(w Watcher, path int))
}{
	{"10,000 watchers of 100 distinct paths each", func(add func(Watcher, int)) {
		for i := range 1_000_000 {
			add(Watcher(i%10_000), i)
		}
	}},
	{"10,000 watchers of the same 100 paths", func(add func(Watcher, int)) {
		for i := range 1_000_000 {
			add(Watcher(i/100), i%100)
		}
	}},
}

// appendPath appends a path of 28 bytes.
func appendPath(b []byte, i int) []byte { return fmt.Appendf(b, "/services/registry/n%08d", i) }

func pathOf(i int) string { return string(appendPath(nil, i)) }

// TestMemory holds a million watches to 100 MB of heap, all included.
func TestMemory(t *testing.T) {
	const limit = 100_000_000
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			before := heap()
			table := New()
			frame := make([]byte, 0, 32)
			shape.fill(func(w Watcher, path int) {
				withAlias(appendPath(frame, path), func(path string) { table.Add(w, path, Data) })
			})
			used := heap() - before
			t.Logf("%d watches: %.1f MB", table.Count(), float64(used)/1e6)
			if used > limit {
				t.Errorf("%d watches use %d bytes, want at most %d", table.Count(), used, limit)
			}
			runtime.KeepAlive(table)
		})
	}
}

// heap returns the bytes in spans that are in use, after a collection: what the
// live objects cost with all rounding.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}
