package watch

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// million is a table of a million data watches on distinct paths. Benchmarks leave
// it as they find it.
var million = sync.OnceValue(func() *Table { return fill(0, 1_000_000) })

func BenchmarkTriggerUnwatched(b *testing.B) {
	deliver := func(Watcher) {}
	paths := make([]string, 1<<12)
	for i := range paths {
		paths[i] = fmt.Sprintf("/services/registry/x%08d", i)
	}
	run := func(name string, table *Table) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				table.Trigger(jute.EventDataChanged, paths[i%len(paths)], deliver)
				i++
			}
		})
	}
	run("watches=0", New())
	full := million()
	run("watches=1M", full)
	full.Add(1, "/elsewhere", PersistentRecursive)
	run("watches=1M+recursive", full)
	full.Remove(1, "/elsewhere", jute.WatchPersistentRecursive)
}

// BenchmarkFire sets a watch and fires it.
func BenchmarkFire(b *testing.B) {
	deliver := func(Watcher) {}
	for _, herd := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("watchers=%d", herd), func(b *testing.B) {
			table := New()
			b.ReportAllocs()
			for b.Loop() {
				for w := range Watcher(herd) {
					table.Add(w, "/services/registry/n00000001", Data)
				}
				table.Trigger(jute.EventDataChanged, "/services/registry/n00000001", deliver)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(herd), "ns/watch")
		})
	}
}

// BenchmarkFireDistinct sets and fires watches in a table of a million.
func BenchmarkFireDistinct(b *testing.B) {
	table := million()
	paths := make([]string, 1<<12)
	for i := range paths {
		paths[i] = pathOf(i * 239)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		table.Trigger(jute.EventDataChanged, paths[i%len(paths)], func(Watcher) {})
		table.Add(Watcher(i%10_000), paths[i%len(paths)], Data)
		i++
	}
}

// BenchmarkAddParallel sets watches that are there already, from all cores: the
// lock is all they share.
func BenchmarkAddParallel(b *testing.B) {
	table := million()
	var next atomic.Uint32
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		w := Watcher(next.Add(1))
		paths := make([]string, 100)
		for i := range paths {
			paths[i] = pathOf(i*10_000 + int(w))
		}
		for i := 0; pb.Next(); i++ {
			table.Add(w, paths[i%len(paths)], Data)
		}
	})
}

func BenchmarkRecursive(b *testing.B) {
	for _, watchers := range []int{1, 1000} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			table := New()
			for w := range Watcher(watchers) {
				table.Add(w, "/services", PersistentRecursive)
			}
			b.ReportAllocs()
			for b.Loop() {
				table.Trigger(jute.EventDataChanged, "/services/registry/n00000001", func(Watcher) {})
			}
		})
	}
}
