package watch

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
	"github.com/zkd-project/zkd/jute"
)

// twin is the table as specified: a set of watches.
type twin map[watch]bool

type watch struct {
	watcher Watcher
	path    string
	mode    Mode
}

func (tw twin) add(w Watcher, path string, mode Mode) { tw[watch{w, path, mode}] = true }

func (tw twin) drop(w Watcher) {
	maps.DeleteFunc(tw, func(x watch, _ bool) bool { return x.watcher == w })
}

func (tw twin) match(w Watcher, path string, typ jute.WatchType) (found []watch) {
	for x := range tw {
		if x.watcher == w && x.path == path && (typ == typeOf[x.mode] || typ == jute.WatchAny) {
			found = append(found, x)
		}
	}
	return found
}

var typeOf = map[Mode]jute.WatchType{
	Data: jute.WatchData, Child: jute.WatchChildren,
	Persistent: jute.WatchPersistent, PersistentRecursive: jute.WatchPersistentRecursive,
}

func (tw twin) remove(w Watcher, path string, typ jute.WatchType) bool {
	found := tw.match(w, path, typ)
	for _, x := range found {
		delete(tw, x)
	}
	return len(found) > 0
}

func (tw twin) trigger(typ jute.EventType, path string) []Watcher {
	children, deleted := typ == jute.EventChildrenChanged, typ == jute.EventDeleted
	named := map[Watcher]bool{}
	for x := range tw {
		var hears bool
		switch same := x.path == path; x.mode {
		case Data:
			hears = same && !children
		case Child:
			hears = same && (children || deleted)
		case Persistent:
			hears = same
		case PersistentRecursive:
			hears = !children && (same || x.path == "/" || x.path != "" && strings.HasPrefix(path, x.path+"/"))
		}
		if !hears {
			continue
		}
		named[x.watcher] = true
		if x.mode == Data || x.mode == Child {
			delete(tw, x)
		}
	}
	return slices.Sorted(maps.Keys(named))
}

// byPath returns the data table.
func (tw twin) byPath() map[string][]Watcher {
	out := map[string][]Watcher{}
	for x := range tw {
		if x.mode != Child && !slices.Contains(out[x.path], x.watcher) {
			out[x.path] = append(out[x.path], x.watcher)
		}
	}
	for _, watchers := range out {
		slices.Sort(watchers)
	}
	return out
}

func (tw twin) count() (n int) {
	for x := range tw {
		n++
		if x.mode == Persistent {
			n++
		}
	}
	return n
}

// fired triggers an event and returns its watchers, in order. A watcher that was named
// twice is listed twice.
func fired(t *Table, typ jute.EventType, path string) []Watcher {
	var named []Watcher
	t.Trigger(typ, path, func(w Watcher) { named = append(named, w) })
	slices.Sort(named)
	return named
}

func byPath(t *Table) map[string][]Watcher {
	out := map[string][]Watcher{}
	for path, watchers := range t.ByPath() {
		out[path] = append(out[path], watchers...)
	}
	return out
}

// TestTwin makes random calls to the table and to the twin, and compares everything
// observable. Small worlds make the modes meet on a path; large ones make the indexes
// grow, and move ids back when one is removed.
func TestTwin(t *testing.T) {
	worlds := []struct{ watchers, names, depth, steps int }{
		{3, 2, 2, 5000},
		{20, 3, 3, 10000},
		{5, 60, 2, 20000},
		{400, 12, 1, 10000},
	}
	for i, world := range worlds {
		seed := seeds.First(t) + uint64(i)
		t.Run(fmt.Sprintf("world=%d/seed=%d", i, seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			path := func() string {
				var b strings.Builder
				for range rng.IntN(world.depth + 1) {
					fmt.Fprintf(&b, "/n%d", rng.IntN(world.names))
				}
				if b.Len() == 0 && rng.IntN(2) == 0 {
					return "/"
				}
				return b.String()
			}
			table, tw := New(), twin{}
			for step := range world.steps {
				stepTwin(t, rng, table, tw, Watcher(rng.IntN(world.watchers)), path())
				if step%500 == 0 {
					compare(t, table, tw, world.watchers)
				}
				if t.Failed() {
					t.Fatalf("at step %d", step)
				}
			}
			for w := range world.watchers {
				table.Drop(Watcher(w))
				tw.drop(Watcher(w))
			}
			compare(t, table, tw, world.watchers)
		})
	}
}

func stepTwin(t *testing.T, rng *rand.Rand, table *Table, tw twin, w Watcher, path string) {
	t.Helper()
	switch n := rng.IntN(100); {
	case n < 60:
		mode := Mode(rng.IntN(modeCount))
		table.Add(w, path, mode)
		tw.add(w, path, mode)
	case n < 70:
		typ := jute.WatchType(rng.IntN(7)) // 0 and 6 are unknown
		if got, want := table.Check(w, path, typ), len(tw.match(w, path, typ)) > 0; got != want {
			t.Errorf("Check(%d, %q, %d) = %v, want %v", w, path, typ, got, want)
		}
		if got, want := table.Remove(w, path, typ), tw.remove(w, path, typ); got != want {
			t.Errorf("Remove(%d, %q, %d) = %v, want %v", w, path, typ, got, want)
		}
	case n < 75:
		fireInParts(t, rng, table, tw, path)
	case n < 99:
		typ := jute.EventType(1 + rng.IntN(4))
		if got, want := fired(table, typ, path), tw.trigger(typ, path); !slices.Equal(got, want) {
			t.Errorf("Trigger(%v, %q) named %v, want %v", typ, path, got, want)
		}
	default:
		table.Drop(w)
		tw.drop(w)
	}
}

// fireInParts triggers an event in parts, between which watches are removed: those that it has not come to are not told.
func fireInParts(t *testing.T, rng *rand.Rand, table *Table, tw twin, path string) {
	t.Helper()
	typ := jute.EventType(1 + rng.IntN(4))
	want := tw.trigger(typ, path)
	if n := table.Matches(typ, path, 1000); n < len(want) || n > len(want)*(modeCount+strings.Count(path, "/")) || table.Matches(typ, path, 2) != min(n, 2) || n > 1 && !table.MayHaveHerd(n-modeCount) {
		t.Errorf("%d watches match %v of %q, which %d watchers hear", n, typ, path, len(want))
	}
	var got, gone []Watcher
	deliver := func(w Watcher) { got = append(got, w) }
	for f := NewFiring(typ, path); table.Fire(&f, 1+rng.IntN(3), deliver); {
		switch w := Watcher(rng.IntN(len(table.watchers))); rng.IntN(3) {
		case 0:
			table.Drop(w)
			tw.drop(w)
			gone = append(gone, w)
		case 1:
			table.Remove(w, path, jute.WatchAny)
			tw.remove(w, path, jute.WatchAny)
			gone = append(gone, w) // unless another of its watches matches
		}
	}
	for _, w := range want {
		if n := len(got) - len(slices.DeleteFunc(slices.Clone(got), func(o Watcher) bool { return o == w })); n != 1 && !(n == 0 && slices.Contains(gone, w)) {
			t.Errorf("%v of %q in parts named %d %d times", typ, path, w, n)
		}
	}
	for _, w := range got {
		if !slices.Contains(want, w) {
			t.Errorf("%v of %q in parts named %d", typ, path, w)
		}
	}
}

func compare(t *testing.T, table *Table, tw twin, watchers int) {
	t.Helper()
	checkInvariants(t, table)
	if got, want := table.Count(), tw.count(); got != want {
		t.Errorf("Count = %d, want %d", got, want)
	}
	want := tw.byPath()
	if got := byPath(table); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("ByPath = %v, want %v", got, want)
	}
	pathsOf := map[Watcher][]string{}
	summary := Summary{Paths: len(want)}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		for _, w := range want[path] {
			pathsOf[w] = append(pathsOf[w], path)
			summary.Watches++
		}
	}
	summary.Connections = len(pathsOf)
	for w := range Watcher(watchers) {
		if got := table.AppendPaths(nil, w); !slices.Equal(got, pathsOf[w]) {
			t.Errorf("AppendPaths(%d) = %v, want %v", w, got, pathsOf[w])
		}
	}
	if got := table.Summary(); got != summary {
		t.Errorf("Summary = %+v, want %+v", got, summary)
	}
}

// checkInvariants checks that the table's structures agree: each watch is in the list of
// its path and in the set of its watcher, each path is in the index, and there is nothing
// else.
func checkInvariants(t *testing.T, table *Table) {
	t.Helper()
	for m := range table.modes {
		r := &table.modes[m]
		indexed, watches, linked := 0, 0, 0
		for i := range r.byPath {
			indexed += r.byPath[i].n
		}
		for p := uint32(1); p < r.paths.used; p++ {
			w := r.paths.at(p)
			if w.path == "" {
				continue
			}
			if r.find(w.path, w.hash) != p {
				t.Errorf("%v: path %q is not found in the index", Mode(m), w.path)
			}
			var prev uint32
			for id := r.head(p); id != 0; prev, id = id, r.next(id) {
				watches++
				set := &table.watchers[r.watcherOf(id)].sets[m]
				slot := r.linkSlot(set, p)
				if slot < 0 || set.ids[slot] != id {
					t.Errorf("%v: watch %d of %q is in slot %d of its watcher", Mode(m), id, w.path, slot)
				}
				if id&alone != 0 {
					continue
				}
				linked++
				if l := r.links.at(id); l.prev != prev || l.path != p {
					t.Errorf("%v: link %d of %q is %+v", Mode(m), id, w.path, *l)
				}
			}
		}
		inSets := 0
		for _, w := range table.watchers {
			if w != nil {
				inSets += w.sets[m].n
			}
		}
		if indexed != r.paths.live || watches != r.watches || linked != r.links.live || inSets != watches {
			t.Errorf("%v: %d paths, %d indexed; %d watches, %d in lists, %d in sets; %d links, %d in lists",
				Mode(m), r.paths.live, indexed, r.watches, watches, inSets, r.links.live, linked)
		}
	}
}
