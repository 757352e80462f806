package jute

import (
	"fmt"
	"math"
	"testing"
)

// TestSequence: the number of each name that the servers make is found again, with one width
// only, and nothing else is a number.
func TestSequence(t *testing.T) {
	for _, n := range []int32{0, 1, 7, math.MaxInt32, math.MinInt32, -1, -999_999_999, -1_000_000_000} {
		name := string(AppendSequence([]byte("x"), n))
		if want := fmt.Sprintf("x%010d", n); name != want {
			t.Errorf("%d is appended as %q, want %q", n, name, want)
		}
		width := len(name) - 1
		if got, ok := Sequence(name, width); got != n || !ok {
			t.Errorf("%q ends with %d, %v; want %d", name, got, ok, n)
		}
		if got, ok := Sequence(name, 21-width); ok && n >= 0 {
			t.Errorf("%q ends also with %d", name, got)
		}
	}
	for _, name := range []string{"", "123456789", "x12345678a", "x2147483648", "x-000000000", "x+000000001", "x-00000001"} {
		if n, ok := Sequence(name, 10); ok {
			t.Errorf("%q ends with %d", name, n)
		}
	}
	for _, name := range []string{"x00000000001", "x-2147483649", "x-0000000001", "x12345678901"} {
		if n, ok := Sequence(name, 11); ok {
			t.Errorf("%q ends with %d", name, n)
		}
	}
	if !Precedes(5, 6) || Precedes(6, 5) || Precedes(5, 5) || !Precedes(math.MaxInt32, math.MinInt32) {
		t.Error("the order of creation is wrong")
	}
}
