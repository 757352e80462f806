package main

import "testing"

func TestCalmness(t *testing.T) {
	var c calmness
	allocated := uint64(100 << 20)
	c.look(allocated)
	for i, step := range []struct {
		bytes uint64
		calm  bool
	}{
		{calmBytes, false}, {0, false}, {calmBytes, false}, {1, true}, {0, true},
		{calmBytes + 1, false}, {0, false}, {0, false}, {0, false}, {0, true},
	} {
		allocated += step.bytes
		if got := c.look(allocated); got != step.calm {
			t.Errorf("step %d: calm is %v", i, got)
		}
	}
}
