package fair

import "testing"

// TestPlaces takes places for two addresses.
func TestPlaces(t *testing.T) {
	var p Places
	ended := make(map[string]int)
	take := func(name, address string, want bool) *Place {
		t.Helper()
		x := p.Take(4, []string{address}, func() { ended[name]++ })
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
	if n := len(p.taken); n != 4-1+ended["b1"] {
		t.Errorf("%d are taken", n)
	}
}
