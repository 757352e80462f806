package fifo

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkd-project/zkd/internal/testing/seeds"
)

// A List does what a slice does, and keeps nothing of what has left it.
func TestListTwin(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seeds.First(t), seed))
		var l List[*int]
		var twin []*int
		for step := range 2000 {
			switch k := r.IntN(100); {
			case k < 50+int(seed):
				l.Push(&step)
				twin = append(twin, &step)
			case k < 97 && len(twin) > 0:
				if got := *l.Front(); got != twin[0] {
					t.Fatalf("seed %d, step %d: the oldest is %d, want %d", seed, step, *got, *twin[0])
				}
				n := 1 + r.IntN(min(len(twin), 3))
				l.Pop(n)
				twin = twin[n:]
			case k < 99 && len(twin) > 0:
				i := r.IntN(len(twin))
				if !Remove(&l, twin[i]) {
					t.Fatalf("seed %d, step %d: %d is not there", seed, step, *twin[i])
				}
				twin = slices.Delete(slices.Clone(twin), i, i+1)
			case k == 99 && r.IntN(10) == 0:
				if got := l.TakeAll(); !slices.Equal(got, twin) {
					t.Fatalf("seed %d, step %d: took %d, want %d", seed, step, len(got), len(twin))
				}
				twin = nil
			}
			if step%50 == 0 && Remove(&l, new(int)) {
				t.Fatalf("seed %d, step %d: removed what was not there", seed, step)
			}
			if l.Len() != len(twin) || !slices.Equal(l.All(), twin) {
				t.Fatalf("seed %d, step %d: %d elements, want %d", seed, step, l.Len(), len(twin))
			}
			left := func(p *int) bool { return p != nil }
			if slices.ContainsFunc(l.items[:l.head], left) || slices.ContainsFunc(l.items[len(l.items):cap(l.items)], left) {
				t.Fatalf("seed %d, step %d: what has left is kept", seed, step)
			}
		}
	}
}
