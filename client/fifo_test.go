package client

import (
	"slices"
	"testing"
)

// The ring does what a slice does.
func TestFifoIsASlice(t *testing.T) {
	for seed := range uint64(50) {
		r := seeded(seed)
		var q fifo
		var twin []*call
		for step := range 2000 {
			switch k := r.IntN(100); {
			case k < 50+int(seed):
				x := &call{seq: uint64(step)}
				q.push(x)
				twin = append(twin, x)
			case k < 97:
				var want *call
				if len(twin) > 0 {
					want, twin = twin[0], twin[1:]
				}
				if got := q.pop(); got != want {
					t.Fatalf("seed %d, step %d: pop", seed, step)
				}
			case k < 99 && len(twin) > 0:
				i := r.IntN(len(twin))
				q.drop(twin[i])
				twin = slices.Delete(slices.Clone(twin), i, i+1)
			case k == 99 && r.IntN(10) == 0:
				if got := q.takeAll(); !slices.Equal(got, twin) {
					t.Fatalf("seed %d, step %d: takeAll", seed, step)
				}
				twin = nil
			}
			if step%50 == 0 {
				q.drop(&call{}) // of one that is not there: nothing
			}
			if q.n != len(twin) {
				t.Fatalf("seed %d, step %d: %d, want %d", seed, step, q.n, len(twin))
			}
			for i := 0; i < len(twin); i += 1 + r.IntN(10) {
				if q.at(i) != twin[i] {
					t.Fatalf("seed %d, step %d: at(%d)", seed, step, i)
				}
			}
		}
		for _, x := range q.takeAll() {
			x.seq = 0
		}
		if slices.ContainsFunc(q.ring, func(k *call) bool { return k != nil }) {
			t.Fatalf("seed %d: the ring keeps calls", seed)
		}
	}
}
