package sim

import (
	"slices"
	"testing"
)

// TestHeldEventsComeFirst is the case that a run with seed 100300742 found: a request that
// arrived in the very microsecond in which a paused node continued overtook those that had
// waited, and the client saw its writes in another order.
func TestHeldEventsComeFirst(t *testing.T) {
	var a agenda
	a.push(event{at: 6, arg: 7})
	a.push(event{at: 5, arg: 3})
	a.push(event{at: 4, arg: 0})
	a.push(event{at: 5, arg: 4})
	a.pushFirst([]event{{at: 5, arg: 1}, {at: 5, arg: 2}})
	a.push(event{at: 5, arg: 5})
	a.push(event{at: 6, arg: 8})
	a.pushFirst([]event{{at: 6, arg: 6}})
	var got []int32
	for range 9 {
		got = append(got, a.pop().arg)
	}
	if want := []int32{0, 1, 2, 3, 4, 5, 6, 7, 8}; !slices.Equal(got, want) {
		t.Errorf("events in the order %v, want %v", got, want)
	}
}
