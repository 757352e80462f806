package exact

import (
	"math"
	"testing"
)

// TestNumber checks that numbers survive the way over the wire as xids, in each cycle of these.
func TestNumber(t *testing.T) {
	for _, confirmed := range []int64{0, 1, 2, cycle - 2, cycle - 1, cycle, cycle + 1, 2*cycle - 1, 2 * cycle, 2*cycle + 1, 1 << 50} {
		for _, ahead := range []int64{1, 2, 3, 4096, cycle / 2, cycle - 1, cycle} {
			number := confirmed + ahead
			xid := Xid(number)
			if got := Number(confirmed, xid); got != number || xid < 1 {
				t.Errorf("number %d has xid %d, and after %d that is number %d", number, xid, confirmed, got)
			}
		}
	}
	if Xid(0) != 0 || Xid(1) != 1 || Xid(cycle) != math.MaxInt32 || Xid(cycle+1) != 1 {
		t.Error("xids of 0, 1, and where they begin again")
	}
}

func TestFateOf(t *testing.T) {
	for _, tt := range []struct {
		number  int64
		covered bool
		replied bool
		want    Fate
	}{
		{6, true, false, Again},
		{6, false, false, Again},
		{5, true, true, Answered},
		{4, true, true, Answered},
		{4, true, false, Refused},
		{4, false, false, Lost},
	} {
		if got := FateOf(tt.number, tt.covered, 5, tt.replied); got != tt.want {
			t.Errorf("%+v: fate %d", tt, got)
		}
	}
}

// TestWindow checks the bounds: so many writes, so many bytes, and one write of any size.
func TestWindow(t *testing.T) {
	var w Window
	number := int64(0)
	fill := func(cost int64) (n int) {
		for ; w.Fits(cost); n++ {
			number += 3
			w.Add(number, cost)
		}
		return n
	}
	if n := fill(Cost(1, 4)); n != MaxWrites || w.Done() != number {
		t.Errorf("room for %d small writes, done %d of %d", n, w.Done(), number)
	}
	w.Confirm(30)
	if n := fill(Cost(0, 4)); n != 10 {
		t.Errorf("room for %d writes after 10 are confirmed", n)
	}
	w.Confirm(number - 1)
	if n := fill(Cost(1, 10<<10)); n != MaxCost/(10<<10+128) {
		t.Errorf("room for %d writes of 10 KiB", n)
	}
	w.Confirm(number)
	if n := fill(Cost(1, MaxCost)); n != 1 {
		t.Errorf("room for %d writes that are too large together", n)
	}
	w.Clear()
	if w.Done() != 0 || fill(MaxCost) != 1 {
		t.Error("an emptied window is not empty")
	}
}
