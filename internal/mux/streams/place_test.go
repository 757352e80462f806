package streams

import "testing"

func TestPlace(t *testing.T) {
	for _, tt := range []struct {
		have    []int
		i       int
		another bool
	}{
		{nil, -1, false},
		{[]int{1}, 0, false},
		{[]int{2}, 0, true},
		{[]int{3, 1}, 1, false},
		{[]int{3, 2}, 1, true},
		{[]int{2, 2, 2}, 0, false}, // these have to do
	} {
		if i, another := Place(tt.have, 2, 3); i != tt.i || another != tt.another {
			t.Errorf("with %v: %d, %v, want %d, %v", tt.have, i, another, tt.i, tt.another)
		}
	}
}
