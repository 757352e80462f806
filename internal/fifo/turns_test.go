package fifo

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
)

const quantum = 4 // of a twin

// twin is an obvious Turns: groups in the order of their turns, each with its lists in that order, and the lists that are
// set aside.
type twin struct {
	groups map[int]*twinGroup
	ring   []int // the groups with lists that have turns
	aside  []*twinList
}

type twinGroup struct {
	saved int
	ring  []*twinList // that have turns
	lists int         // those that are set aside included
}

type twinList struct {
	key, saved int
	items      []twinItem
}

type twinItem struct{ item, cost int }

// groupOf returns the group of a key.
func groupOf(key int) int { return key % 3 }

// quantumOf returns the quantum of a group.
func quantumOf(group int) int { return quantum * (1 + group) / 2 }

func (w *twin) all() (all []*twinList) {
	for _, g := range w.ring {
		all = append(all, w.groups[g].ring...)
	}
	return append(all, w.aside...)
}

func (w *twin) find(key int) *twinList {
	for _, l := range w.all() {
		if l.key == key {
			return l
		}
	}
	return nil
}

func (w *twin) push(key, item, cost int) {
	l := w.find(key)
	if l == nil {
		l = &twinList{key: key, saved: quantum}
		if w.groups[groupOf(key)] == nil {
			w.groups[groupOf(key)] = &twinGroup{saved: quantumOf(groupOf(key))}
		}
		w.groups[groupOf(key)].lists++
		w.giveTurns(l)
	}
	l.items = append(l.items, twinItem{item, cost})
}

func (w *twin) giveTurns(l *twinList) {
	g := groupOf(l.key)
	if len(w.groups[g].ring) == 0 {
		w.ring = append(w.ring, g)
	}
	w.groups[g].ring = append(w.groups[g].ring, l)
}

// endTurns removes a list from those that have turns.
func (w *twin) endTurns(l *twinList) {
	g := w.groups[groupOf(l.key)]
	g.ring = slices.DeleteFunc(g.ring, func(x *twinList) bool { return x == l })
	if len(g.ring) == 0 {
		w.ring = slices.DeleteFunc(w.ring, func(x int) bool { return x == groupOf(l.key) })
	}
}

func (w *twin) forget(l *twinList) {
	if w.groups[groupOf(l.key)].lists--; w.groups[groupOf(l.key)].lists == 0 {
		delete(w.groups, groupOf(l.key))
	}
}

// front returns the list that has its turn.
func (w *twin) front() *twinList {
	for {
		g := w.groups[w.ring[0]]
		for g.ring[0].items[0].cost > g.ring[0].saved && len(g.ring) > 1 {
			g.ring[0].saved += quantum
			g.ring = append(g.ring[1:], g.ring[0])
		}
		if g.ring[0].items[0].cost <= g.saved || len(w.ring) == 1 {
			return g.ring[0]
		}
		g.saved += quantumOf(w.ring[0])
		w.ring = append(w.ring[1:], w.ring[0])
	}
}

func (w *twin) pop() int {
	l := w.front()
	g, first := w.groups[groupOf(l.key)], l.items[0]
	l.items, l.saved, g.saved = l.items[1:], max(0, l.saved-first.cost), max(0, g.saved-first.cost)
	if len(l.items) == 0 {
		w.endTurns(l)
		w.forget(l)
	}
	return first.item
}

func (w *twin) remove(key int) (items []int) {
	l := w.find(key)
	if l == nil {
		return nil
	}
	for _, item := range l.items {
		items = append(items, item.item)
	}
	if i := slices.Index(w.aside, l); i >= 0 {
		w.aside = slices.Delete(w.aside, i, i+1)
	} else {
		w.endTurns(l)
	}
	w.forget(l)
	return items
}

func (w *twin) setAside() {
	l := w.front()
	w.endTurns(l)
	w.aside = append(w.aside, l)
}

func (w *twin) restore() {
	list := w.aside
	w.aside = nil
	for _, l := range list {
		w.giveTurns(l)
	}
}

func (w *twin) lists() (lists []Line[int], items []int) {
	for _, l := range w.all() {
		one := Line[int]{Key: uint64(l.key), First: &l.items[0].item}
		for _, item := range l.items {
			one.Cost += item.cost
			items = append(items, item.item)
		}
		lists = append(lists, one)
	}
	return lists, items
}

// push pushes an element to the list of a key, in a group without a quantum of its own.
func push[G comparable, T any](t *Turns[G, T], in G, key uint64, item T, cost int) {
	if !t.Append(key, item, cost) {
		t.Push(in, 0, key, item, cost)
	}
}

// TestTurnsTwin compares Turns with the twin: few keys with long lists, and many with short ones.
func TestTurnsTwin(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seeds.First(t), 1))
	for range 200 {
		turns := Turns[int, int]{Quantum: quantum}
		w := twin{groups: make(map[int]*twinGroup)}
		keys, pops := 1+rnd.IntN(20), 1+rnd.IntN(10)
		for i := range 1000 {
			if rnd.IntN(20) == 0 {
				turns.Restore()
				w.restore()
			}
			if len(w.ring) == 0 && turns.Front() != nil {
				t.Fatalf("%d keys, step %d: a list that is set aside has turns", keys, i)
			}
			if rnd.IntN(50) == 0 {
				key := rnd.IntN(keys)
				var got []int
				turns.Remove(uint64(key), func(item *int) { got = append(got, *item) })
				if want := w.remove(key); !slices.Equal(got, want) {
					t.Fatalf("%d keys, step %d: removed %d, want %d", keys, i, got, want)
				}
			}
			if rnd.IntN(10) >= pops || len(w.ring) == 0 {
				key := rnd.IntN(keys)
				cost := 1 + rnd.IntN(3)
				if rnd.IntN(5) == 0 {
					cost = rnd.IntN(5 * quantum)
				}
				if !turns.Append(uint64(key), i, cost) {
					turns.Push(groupOf(key), quantumOf(groupOf(key)), uint64(key), i, cost)
				}
				w.push(key, i, cost)
				continue
			}
			if rnd.IntN(10) == 0 {
				turns.Front()
				turns.SetAside()
				w.setAside()
				continue
			}
			got, want := *turns.Front(), w.pop()
			turns.Pop()
			if got != want {
				t.Fatalf("%d keys, step %d: got %d, want %d", keys, i, got, want)
			}
		}
		same := func(a, b Line[int]) bool { return a.Key == b.Key && *a.First == *b.First && a.Cost == b.Cost }
		lists, want := w.lists()
		if got := slices.Collect(turns.Lists()); !slices.EqualFunc(got, lists, same) {
			t.Fatalf("%d keys: lists %+v, want %+v", keys, got, lists)
		}
		var all []int
		for item := range turns.All() {
			all = append(all, *item)
		}
		if !slices.Equal(all, want) || turns.Len() != len(want) {
			t.Fatalf("%d keys: %d elements %v, want %v", keys, turns.Len(), all, want)
		}
	}
}

// A group with many lists has as many turns as one with a single list.
func TestTurnsOfGroups(t *testing.T) {
	turns := Turns[int, int]{Quantum: 4}
	for i := range 300 {
		push(&turns, 1, uint64(1+i%100), 1, 2)
		push(&turns, 2, 1000, 2, 2)
	}
	of := make(map[int]int)
	for range 200 {
		of[*turns.Front()]++
		turns.Pop()
	}
	if of[1] != 100 || of[2] != 100 {
		t.Errorf("of 200 elements, %d are of a hundred lists and %d of one, want as many", of[1], of[2])
	}
}

// Groups that always want more have turns in proportion to their quanta, and one that is alone has all.
func TestTurnsByQuantum(t *testing.T) {
	turns := Turns[int, int]{Quantum: 4}
	turns.Push(1, 4, 1, 1, 2)
	turns.Push(2, 12, 2, 2, 2)
	for range 300 {
		turns.Append(1, 1, 2)
		turns.Append(2, 2, 2)
	}
	of := make(map[int]int)
	for range 400 {
		of[*turns.Front()]++
		turns.Pop()
	}
	if of[1] != 100 || of[2] != 300 {
		t.Errorf("of 400 elements, %d are of the group with a quantum of 4 and %d of that with 12, want 100 and 300", of[1], of[2])
	}
	for ; turns.Len() > 0; turns.Pop() {
		of[*turns.Front()]++
	}
	if of[1] != 301 || of[2] != 301 {
		t.Errorf("%v elements were removed in the end, want all", of)
	}
}

// An element of another list waits for a quantum of a long list.
func TestTurnsLongList(t *testing.T) {
	turns := Turns[int, int]{Quantum: 8}
	for i := range 100_000 {
		push(&turns, 0, 1, i, 2)
	}
	push(&turns, 0, 2, -1, 2)
	for range 4 {
		turns.Pop()
	}
	if got := *turns.Front(); got != -1 {
		t.Errorf("the next one is %d of the long list", got)
	}
}

// Elements of other lists pass an expensive one, which has its turn in the end.
func TestTurnsExpensive(t *testing.T) {
	turns := Turns[int, int]{Quantum: 2}
	push(&turns, 0, 1, -1, 5)
	for i := range 10 {
		push(&turns, 0, 2, i, 1)
	}
	var got []int
	for turns.Len() > 4 {
		got = append(got, *turns.Front())
		turns.Pop()
	}
	if want := []int{0, 1, 2, 3, -1, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A list saves nothing while it is alone or empty.
func TestTurnsSaveNothingAlone(t *testing.T) {
	turns := Turns[int, int]{Quantum: 2}
	for i := range 100 {
		push(&turns, 0, 1, i, 1)
		turns.Pop()
	}
	for i := range 5 {
		push(&turns, 0, 1, i, 1)
	}
	push(&turns, 0, 2, -1, 1)
	var got []int
	for range 4 {
		got = append(got, *turns.Front())
		turns.Pop()
	}
	if want := []int{0, 1, -1, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Neither pushes nor pops leave garbage, whether one key is used or all have one element.
func TestTurnsLeaveNoGarbage(t *testing.T) {
	for _, keys := range []uint64{1, 64, 512} {
		turns := Turns[uint64, [10]int]{Quantum: 4}
		round := func() {
			for i := range uint64(512) {
				push(&turns, i%keys%7, i%keys, [10]int{}, 1)
			}
			for range 512 {
				turns.Pop()
			}
		}
		round()
		if n := testing.AllocsPerRun(100, round); n > 0 {
			t.Errorf("%d keys: 512 elements take %v allocations", keys, n)
		}
	}
}

func BenchmarkTurns(b *testing.B) {
	for _, bench := range []struct {
		name string
		keys uint64
	}{{"one", 1}, {"eight", 8}, {"each", 64}} {
		b.Run(bench.name, func(b *testing.B) {
			turns := Turns[uint64, [16]int]{Quantum: 4}
			b.ReportAllocs()
			for b.Loop() {
				for i := range uint64(64) {
					push(&turns, i*bench.keys/64, i*bench.keys/64, [16]int{}, 1)
				}
				for range 64 {
					turns.Pop()
				}
			}
		})
	}
	b.Run("list", func(b *testing.B) {
		var list List[[16]int]
		for b.Loop() {
			for range 64 {
				list.Push([16]int{})
			}
			list.Pop(64)
		}
	})
}
