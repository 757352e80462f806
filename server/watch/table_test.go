package watch

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkd-project/zkd/jute"
)

// TestPathIsCopied lets a path alias a buffer that is reused, as a connection's
// frame buffer is.
func TestPathIsCopied(t *testing.T) {
	table, frame := New(), []byte("/a/b")
	withAlias(frame, func(path string) {
		table.Add(1, path, Data)
		copy(frame, "/x/y")
	})
	if got := fired(table, jute.EventDataChanged, "/a/b"); !slices.Equal(got, []Watcher{1}) {
		t.Errorf("after the buffer changed, /a/b named %v, want [1]", got)
	}
}

// TestHandleIsReused gives a handle to a second connection.
func TestHandleIsReused(t *testing.T) {
	table := New()
	table.Add(1, "/old", Persistent)
	table.Drop(1)
	table.Add(1, "/new", Data)
	if got := fired(table, jute.EventDataChanged, "/old"); got != nil {
		t.Errorf("the first owner's path named %v, want nobody", got)
	}
	if got := fired(table, jute.EventDataChanged, "/new"); !slices.Equal(got, []Watcher{1}) {
		t.Errorf("the second owner's path named %v, want [1]", got)
	}
}

// TestDropInParts checks that the watches of a large connection are removed a part at a
// time, and that the table works in between.
func TestDropInParts(t *testing.T) {
	const n = 20 * dropLen
	table := New()
	for i := range n {
		table.Add(1, pathOf(i), Mode(i%modeCount))
		table.Add(2, pathOf(i), Data)
	}
	var ends [modeCount]int
	left := table.CountOf(1)
	for i := 0; table.dropPart(1, &ends); i++ {
		for j := i * 100; j < i*100+100; j++ { // some are fired or removed meanwhile
			table.Trigger(jute.EventDeleted, pathOf(j), func(Watcher) {})
			table.Remove(1, pathOf(n-1-j), jute.WatchAny)
		}
		now := table.CountOf(1)
		if now < left-dropLen-200 {
			t.Fatalf("part %d removed %d watches", i, left-now)
		}
		left = now
		checkInvariants(t, table)
	}
	if left == n || table.CountOf(1) != 0 {
		t.Errorf("%d watches are left after the drop", table.CountOf(1))
	}
	fired(table, jute.EventDataChanged, pathOf(n-1))
	if got, want := table.CountOf(2), table.Count(); got != want {
		t.Errorf("the other connection has %d watches of %d", got, want)
	}
	checkInvariants(t, table)
}

// TestReadInParts: a part of what is listed holds the lock for so many paths and watchers at most.
func TestReadInParts(t *testing.T) {
	table := New()
	for i := range 10_000 {
		table.Add(1, pathOf(i), Data)
	}
	var part pathPart
	for more, read := true, 0; more; {
		if more = table.readPart(&part, Data, nil); len(part.paths)+len(part.watchers) > 1025 {
			t.Fatalf("a part has %d paths and %d watchers", len(part.paths), len(part.watchers))
		}
		if read += len(part.paths); !more && read != 10_000 {
			t.Errorf("%d paths are read", read)
		}
	}
}

// TestMemoryIsReused fills and empties a table several times with the same watches: after
// the first time it must not need more memory.
func TestMemoryIsReused(t *testing.T) {
	table := New()
	records := func() (n int) {
		for m := range table.modes {
			n += len(table.modes[m].paths.chunks) + len(table.modes[m].links.chunks)
		}
		return n
	}
	var first int
	for round := range 5 {
		for i := range 5000 {
			table.Add(Watcher(i%7), fmt.Sprintf("/n%d", i), Mode(i%modeCount))
		}
		for i := range 5000 {
			if i%2 == round%2 {
				table.Trigger(jute.EventDeleted, fmt.Sprintf("/n%d", i), func(Watcher) {})
			}
		}
		for w := range Watcher(7) {
			table.Drop(w)
		}
		if round == 0 {
			first = records()
		} else if got := records(); got != first {
			t.Fatalf("round %d: %d chunks, at first %d", round, got, first)
		}
	}
	checkInvariants(t, table)
}

// TestConcurrent adds, removes and drops from several goroutines while another triggers
// and a fourth reads. A dropped handle must not be named until it is in use again.
func TestConcurrent(t *testing.T) {
	const watchers, rounds = 4, 500
	table := New()
	var inUse [watchers]atomic.Bool
	var wg sync.WaitGroup
	stop := make(chan struct{})
	until := func(f func()) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	until(func() {
		table.Trigger(jute.EventDeleted, "/a/b", func(w Watcher) {
			if !inUse[w].Load() {
				t.Errorf("watcher %d was named after its Drop", w)
			}
		})
	})
	until(func() {
		for range table.ByPath() {
			table.Count()
		}
		table.Summary()
	})
	var owners sync.WaitGroup
	for w := range Watcher(watchers) {
		owners.Go(func() {
			for i := range rounds {
				inUse[w].Store(true)
				table.Add(w, "/a/b", Mode(i%modeCount))
				table.Add(w, "/a", PersistentRecursive)
				table.Add(w, fmt.Sprintf("/own/%d/%d", w, i), Data)
				table.Remove(w, "/a/b", jute.WatchAny)
				table.Drop(w)
				inUse[w].Store(false)
			}
		})
	}
	owners.Wait()
	close(stop)
	wg.Wait()
	checkInvariants(t, table)
	if n := table.Count(); n != 0 {
		t.Errorf("%d watches left after all connections closed", n)
	}
}

// TestTriggerAllocatesNothing covers the paths of a write: no watchers, recursive watches
// elsewhere or above, and a herd.
func TestTriggerAllocatesNothing(t *testing.T) {
	const herd = 10_000
	table := New()
	heard := 0
	deliver := func(Watcher) { heard++ }
	check := func(name string, want float64, f func()) {
		t.Helper()
		if got := testing.AllocsPerRun(10, f); got > want {
			t.Errorf("%s: %v allocations, want %v", name, got, want)
		}
	}
	trigger := func() { table.Trigger(jute.EventDataChanged, "/app/config/name", deliver) }
	check("empty table", 0, trigger)
	table.Add(1, "/elsewhere", Data)
	table.Add(1, "/elsewhere", PersistentRecursive)
	check("nobody watches", 0, trigger)
	table.Add(1, "/app", PersistentRecursive)
	table.Add(2, "/app/config/name", Persistent)
	check("persistent watches", 0, trigger)

	for w := range Watcher(herd) {
		table.Add(w, "/herd", Data)
	}
	heard = 0
	var mallocs runtime.MemStats
	runtime.ReadMemStats(&mallocs)
	before := mallocs.Mallocs
	table.Trigger(jute.EventDeleted, "/herd", deliver)
	runtime.ReadMemStats(&mallocs)
	if n := mallocs.Mallocs - before; heard != herd || n > 20 { // other goroutines may allocate too
		t.Errorf("a herd of %d: %d heard, %d allocations", herd, heard, n)
	}

	table.Add(3, "/again", Data)
	check("a watch set again", 0, func() { table.Add(3, "/again", Data) })
	check("a watch checked", 0, func() { table.Check(3, "/again", jute.WatchAny) })
}

func TestModeOf(t *testing.T) {
	for number, want := range map[jute.AddWatchMode]Mode{jute.AddPersistent: Persistent, jute.AddPersistentRecursive: PersistentRecursive} {
		if m, ok := ModeOf(number); m != want || !ok {
			t.Errorf("ModeOf(%d) = %v, %v, want %v", number, m, ok, want)
		}
	}
	for _, number := range []jute.AddWatchMode{-1, 2} {
		if m, ok := ModeOf(number); ok {
			t.Errorf("ModeOf(%d) = %v", number, m)
		}
	}
}

// TestLongPathsCostLittle checks that an event is looked up only as deep as there are recursive watches.
func TestLongPathsCostLittle(t *testing.T) {
	table, heard := New(), 0
	deliver := func(Watcher) { heard++ }
	path := strings.Repeat("/d", 1000)
	table.Add(1, "/", PersistentRecursive)
	table.Add(2, "/d/d", PersistentRecursive)
	table.Trigger(jute.EventDeleted, path, deliver)
	if heard != 2 || table.looked != 2 {
		t.Errorf("%d heard of it, %d paths were looked up; want 2 and 2", heard, table.looked)
	}
	heard, table.looked = 0, 0
	table.Add(3, path, PersistentRecursive)
	table.Trigger(jute.EventDeleted, path, deliver)
	table.Trigger(jute.EventDeleted, path+"/d", deliver)
	if heard != 6 || table.looked != 2000 {
		t.Errorf("%d heard of them, %d paths were looked up; want 6 and 2000", heard, table.looked)
	}
	for w := range Watcher(4) {
		table.Drop(w)
	}
	heard, table.looked = 0, 0
	table.Add(1, "/d", PersistentRecursive)
	table.Trigger(jute.EventDeleted, path, deliver)
	if heard != 1 || table.looked != 1 {
		t.Errorf("%d heard of it, %d paths were looked up; want 1 and 1", heard, table.looked)
	}
}
