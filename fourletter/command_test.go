package fourletter

import "testing"

func TestLookup(t *testing.T) {
	for _, c := range words {
		if got, ok := Lookup([4]byte([]byte(c.String()))); got != c || !ok {
			t.Errorf("Lookup(%v) = %v, %v", c, got, ok)
		}
		if c < 0x61000000 {
			t.Errorf("%v could be the length of a frame", c)
		}
	}
	if c, ok := Lookup([4]byte{0xff, 0xf4, 0xff, 0xfd}); c != TelnetClose || !ok || c.String() != "telnet close" {
		t.Errorf("telnet's interrupt is %v, %v", c, ok)
	}
	for _, first := range []string{"kill", "RUOK", "\x00\x00\x00\x2d", "ruo\n", "\xff\xff\xff\xff"} {
		if c, ok := Lookup([4]byte([]byte(first))); ok {
			t.Errorf("Lookup(%q) = %v", first, c)
		}
	}
}

func TestDouble(t *testing.T) {
	for _, c := range []struct {
		in   float64
		want string
	}{
		{0, "0.0"}, {1, "1.0"}, {-1.5, "-1.5"}, {1.26834, "1.2683"}, {1.26835, "1.2684"}, {0.00004, "0.0"},
		{0.0001, "1.0E-4"}, {0.001, "0.001"}, {9999999, "9999999.0"}, {1e7, "1.0E7"}, {12345678.5, "1.23456785E7"},
		{1e300, "1.0E300"},
	} {
		if got := Double(c.in); got != c.want {
			t.Errorf("Double(%v) = %s, want %s", c.in, got, c.want)
		}
	}
}
