package fifo

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
)

const quantum = 4 // of a twin

// twin is an obvious Turns: lists in the order of their turns, and then those that are set aside.
type twin []twinList

type twinList struct {
	key   uint64
	aside bool
	saved int
	items []twinItem
}

type twinItem struct{ item, cost int }

func (w *twin) push(key uint64, item, cost int) {
	i := slices.IndexFunc(*w, func(l twinList) bool { return l.key == key })
	if i < 0 {
		i = w.turns()
		*w = slices.Insert(*w, i, twinList{key: key, saved: quantum})
	}
	(*w)[i].items = append((*w)[i].items, twinItem{item, cost})
}

// turns returns the number of lists that have turns.
func (w *twin) turns() int {
	n := slices.IndexFunc(*w, func(l twinList) bool { return l.aside })
	if n < 0 {
		return len(*w)
	}
	return n
}

// take removes the list that has its turn.
func (w *twin) take() twinList {
	for {
		l := (*w)[0]
		*w = (*w)[1:]
		if l.items[0].cost <= l.saved || w.turns() == 0 {
			return l
		}
		l.saved += quantum
		*w = slices.Insert(*w, w.turns(), l)
	}
}

func (w *twin) pop() int {
	l := w.take()
	item := l.items[0]
	l.items, l.saved = l.items[1:], max(0, l.saved-item.cost)
	if len(l.items) > 0 {
		*w = slices.Insert(*w, 0, l)
	}
	return item.item
}

func (w *twin) remove(key uint64) (items []int) {
	i := slices.IndexFunc(*w, func(l twinList) bool { return l.key == key })
	if i < 0 {
		return nil
	}
	for _, item := range (*w)[i].items {
		items = append(items, item.item)
	}
	*w = slices.Delete(*w, i, i+1)
	return items
}

func (w *twin) lists() (lists []Line[int]) {
	for _, l := range *w {
		one := Line[int]{Key: l.key, First: &l.items[0].item}
		for _, item := range l.items {
			one.Cost += item.cost
		}
		lists = append(lists, one)
	}
	return lists
}

func (w *twin) setAside() {
	l := w.take()
	l.aside = true
	*w = append(*w, l)
}

func (w *twin) restore() {
	for i := range *w {
		(*w)[i].aside = false
	}
}

func (w *twin) all() (items []int) {
	for _, l := range *w {
		for _, i := range l.items {
			items = append(items, i.item)
		}
	}
	return items
}

// TestTurnsTwin compares Turns with the twin: few keys with long lists, and many with short ones.
func TestTurnsTwin(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seeds.First(t), 1))
	for range 200 {
		turns := Turns[int]{Quantum: quantum}
		var w twin
		keys, pops := 1+rnd.IntN(20), 1+rnd.IntN(10)
		for i := range 1000 {
			if rnd.IntN(20) == 0 {
				turns.Restore()
				w.restore()
			}
			if w.turns() == 0 && turns.Front() != nil {
				t.Fatalf("%d keys, step %d: a list that is set aside has turns", keys, i)
			}
			if rnd.IntN(50) == 0 {
				key := uint64(rnd.IntN(keys))
				var got []int
				turns.Remove(key, func(item *int) { got = append(got, *item) })
				if want := w.remove(key); !slices.Equal(got, want) {
					t.Fatalf("%d keys, step %d: removed %d, want %d", keys, i, got, want)
				}
			}
			if rnd.IntN(10) >= pops || w.turns() == 0 {
				key := uint64(rnd.IntN(keys))
				cost := 1 + rnd.IntN(3)
				if rnd.IntN(5) == 0 {
					cost = rnd.IntN(5 * quantum)
				}
				turns.Push(key, i, cost)
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
		if got, want := slices.Collect(turns.Lists()), w.lists(); !slices.EqualFunc(got, want, same) {
			t.Fatalf("%d keys: lists %+v, want %+v", keys, got, want)
		}
		var all []int
		for item := range turns.All() {
			all = append(all, *item)
		}
		if want := w.all(); !slices.Equal(all, want) || turns.Len() != len(want) {
			t.Fatalf("%d keys: %d elements %v, want %v", keys, turns.Len(), all, want)
		}
	}
}

// An element of another list waits for a quantum of a long list.
func TestTurnsLongList(t *testing.T) {
	turns := Turns[int]{Quantum: 8}
	for i := range 100_000 {
		turns.Push(1, i, 2)
	}
	turns.Push(2, -1, 2)
	for range 4 {
		turns.Pop()
	}
	if got := *turns.Front(); got != -1 {
		t.Errorf("the next one is %d of the long list", got)
	}
}

// Elements of other lists pass an expensive one, which has its turn in the end.
func TestTurnsExpensive(t *testing.T) {
	turns := Turns[int]{Quantum: 2}
	turns.Push(1, -1, 5)
	for i := range 10 {
		turns.Push(2, i, 1)
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
	turns := Turns[int]{Quantum: 2}
	for i := range 100 {
		turns.Push(1, i, 1)
		turns.Pop()
	}
	for i := range 5 {
		turns.Push(1, i, 1)
	}
	turns.Push(2, -1, 1)
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
		turns := Turns[[10]int]{Quantum: 4}
		round := func() {
			for i := range uint64(512) {
				turns.Push(i%keys, [10]int{}, 1)
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
			turns := Turns[[16]int]{Quantum: 4}
			b.ReportAllocs()
			for b.Loop() {
				for i := range uint64(64) {
					turns.Push(i*bench.keys/64, [16]int{}, 1)
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
