package fair

import (
	"fmt"
	"strings"
	"testing"
)

// TestPlaces takes places for two addresses.
func TestPlaces(t *testing.T) {
	var p Places[string]
	ended := make(map[string]int)
	take := func(name, address string, want bool) *Place[string] {
		t.Helper()
		x := p.Take(4, name, []string{address}, func() { ended[name]++ })
		if (x != nil) != want {
			t.Errorf("%s gets a place: %v, want %v", name, x != nil, want)
		}
		return x
	}
	a1 := take("a1", "a", true)
	for _, name := range []string{"a2", "a3", "a4"} {
		take(name, "a", true)
	}
	take("a5", "a", false)
	b1 := take("b1", "b", true) // instead of a1
	p.Leave(a1)                 // it is not a1's any more
	take("a6", "a", false)
	take("b2", "b", true) // instead of a2
	take("b3", "b", false)
	take("c1", "c", true) // instead of one of either
	if len(ended) != 3 || ended["a1"] != 1 || ended["a2"] != 1 || ended["a3"]+ended["b1"] != 1 {
		t.Errorf("ended: %v", ended)
	}
	p.Leave(b1)
	p.Leave(b1)
	if n := p.Len(); n != 4-1+ended["b1"] {
		t.Errorf("%d are taken", n)
	}
}

// TestPlacesOfOneAddress takes places for connections of one address: one that has most gives way.
func TestPlacesOfOneAddress(t *testing.T) {
	var p Places[string]
	var ended []string
	take := func(most int, key, place string) bool {
		return p.Take(most, key, []string{"a"}, func() { ended = append(ended, place) }) != nil
	}
	for _, tt := range []struct {
		most       int
		key, place string
		want       bool
		ended      string
	}{
		{3, "x", "x1", true, "[]"},
		{3, "x", "x2", true, "[]"},
		{3, "x", "x3", true, "[]"},
		{3, "x", "x4", false, "[]"},
		{3, "y", "y1", true, "[x1]"},
		{3, "y", "y2", false, "[x1]"},
		{3, "z", "z1", true, "[x1 x2]"},
		{2, "v", "v1", false, "[x1 x2]"}, // there are more than 2
		{4, "v", "v1", true, "[x1 x2]"},
	} {
		if got := take(tt.most, tt.key, tt.place); got != tt.want || fmt.Sprint(ended) != tt.ended {
			t.Errorf("%s: %v, and %v have ended; want %v, %s", tt.place, got, ended, tt.want, tt.ended)
		}
	}
}

// TestIdlePlaces takes places where no holder has more than another: one that is idle gives way, but not to an
// address that has more.
func TestIdlePlaces(t *testing.T) {
	for _, tt := range []struct {
		name  string
		taken string // address, and + for one that is busy
		from  string
		ended string // index
	}{
		{"one address", "a a a", "a", "0"},
		{"busy ones stay", "a+ a a", "a", "1"},
		{"all are busy", "a+ a+ a+", "a", ""},
		{"an address for each", "a+ b c", "d", "1"},
		{"an address that has most does not take that of another", "b a a", "a", "1"},
		{"nor if its own are busy", "b a+ a+", "a", ""},
		{"another address takes what an address with most has, an idle one first", "b a+ a", "c", "2"},
		{"a busy one if there is no idle one", "b a+ a+", "c", "1"},
	} {
		var p Places[int]
		ended := ""
		take := func(i int, address string) *Place[int] {
			return p.Take(3, i, []string{address}, func() { ended += fmt.Sprint(i) })
		}
		for i, address := range strings.Fields(tt.taken) {
			x := take(i, address[:1])
			p.SetIdle(x, true)
			p.SetIdle(x, len(address) == 1)
		}
		if x := take(3, tt.from); ended != tt.ended || (x != nil) != (ended != "") {
			t.Errorf("%s: %q ends, want %q", tt.name, ended, tt.ended)
		}
	}
}
